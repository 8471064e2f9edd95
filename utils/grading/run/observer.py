"""The observer in a student's process. `student_process.py` runs this text in a namespace that nothing else reaches.

Before a line of the student's code runs, `remember` keeps the functions and classes that looking depends on. What it
returns, called with the key, adds an audit hook: Python has no way to list or remove those. The hook answers one
event, "course.look":

1. the request has to be signed with the key that only the grader and the hook have, and be newer than the last; the
   probe in it is enciphered, so that the notebook never has its text;
2. functions, classes and the entries of tables that were replaced are put back, and their names are told;
3. the probe runs in a new thread, whose frames lead nowhere else, and no other code may walk frames, ask the garbage
   collector or read the probe's code meanwhile;
4. what was replaced meanwhile, or a log or accounts of the simulated GPUs that are not what they did, makes the
   answer worthless: looked at when it is done, and, for what a look itself uses, after each call of the probe;
5. the reply is signed.

It calls nothing that the student's code could replace: operators, built-in types and functions that it has kept. It
raises nothing from where a traceback would lead to what it knows. What this holds against and what it does not is
said in docs/instructors.md.
"""

import _thread
import builtins
import gc
import signal
import sys
import types
from _blake2 import blake2b
from _sha3 import shake_256  # pyright: ignore[reportMissingImports]
from binascii import a2b_base64, hexlify
from collections import OrderedDict
from contextlib import suppress
from itertools import chain
from operator import is_

from simgpu.torch_private import let_libraries_ask, mode_counters

# Packages whose functions and classes a look goes through.
TRUSTED = (
    *("builtins", "types", "functools", "inspect", "linecache", "traceback", "textwrap", "ast", "copy", "io"),
    *("json", "base64", "contextlib", "dataclasses", "collections", "enum", "typing", "math", "statistics"),
    *("torch._tensor", "torch.nn", "torch.autograd", "torch.optim", "torch.utils", "torch._ops", "torch.overrides"),
    *("torch._C", "torch.random", "torch.serialization", "torch._utils", "torch.storage", "torch.functional"),
    *("numpy", "utils", "simgpu", "weakref", "abc", "operator", "itertools", "time", "csv"),
)
EXACTLY = ("torch",)
# What a look itself uses: modules of these names and the classes of theirs, but of the hundreds in C++ only some.
NEAR = (
    *("builtins", "torch", "torch._tensor", "torch.overrides", "torch.autograd", "torch.nn.modules.module"),
    "torch.nn.parameter",
)
NEAR_PACKAGES = (
    *(
        "utils.exercises.facts",
        "simgpu",
        "utils.grading",
        "utils.observe.trace",
        "utils.observe.timing",
        "utils.observe.intervals",
    ),
    *("utils.observe.devices", "utils.schedules.of_layers"),
)
# Modules of PyTorch whose tables decide what happens in every call: hooks of all modules, of all optimizers.
HOOKED = ("torch.nn.modules.module", "torch.optim.optimizer", "torch.utils.hooks", "torch.overrides")
# What is kept for speed and may grow: emptied before each look.
CACHES = (*("simgpu.operators._operators", "simgpu.layout._layouts", "simgpu.moves._made"),)
# And what grows, and decides nothing.
GROWS = (
    *("simgpu.operators._kept", "simgpu.origin._origins", "simgpu.waiting._guards"),
    *("utils.exercises.facts.probes._made", "simgpu.torch_private.device._kept_alive", "simgpu.ordering._lists"),
    "simgpu.torch_private.distributed._awaited",
)
CONTAINERS = (dict, OrderedDict, list, set)
# Operators of PyTorch's own are not to be overridden: the simulated GPUs would not see what they do.
OWN_OPERATORS = ("aten", "prim", "prims", "_")
NEAR_CLASSES = ("Tensor", "TensorBase", "device", "dtype", "Size", "Generator")
# The kernel itself replaces this one, each time a cell runs.
KERNELS_OWN = ("builtins.input",)
MANY = 20  # names told, at most
LOGGED = 200_000  # records of the simulated GPUs, at most
FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
# While an answer is looked at: what leads from an object to a probe that holds it.
LEADS_TO_PROBES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
REFUSED = (
    *("sys.addaudithook", "sys._current_frames", "sys._current_exceptions", "sys.monitoring.register_callback"),
    *("ctypes.cdata", "ctypes.cdata/buffer", "ctypes.string_at", "ctypes.wstring_at", "ctypes.call_function"),
    *("ctypes.get_errno", "ctypes.set_errno", "ctypes.addressof"),
)
# The hook hears of every event, of builtins.id hundreds of thousands, and answers these.
ANSWERED = frozenset(
    {
        *("simgpu.record", "simgpu.memory", "simgpu.cleared", "simgpu.listening", "simgpu.unfinished"),
        *("course.look", "course.called", "course.computed", "course.probe", "course.noted", "course.library"),
        *("object.__getattr__", "object.__setattr__", "sys._getframe", "sys.setprofile", "sys.settrace"),
        *("marshal.loads", "compile", "code.__new__"),
        *(*REFUSED, *LEADS_TO_PROBES),
    }
)
# Kept before anybody can replace them.
GC_IS_ON, GC_OFF, GC_ON, GET_IDENT = gc.isenabled, gc.disable, gc.enable, _thread.get_ident
CONTENT_OF = types.CellType.cell_contents.__get__
TO_BYTES = memoryview.tobytes
MISSING = types.SimpleNamespace()  # neither callable nor a descriptor


class Refused(PermissionError, ValueError):
    """What asks for a frame and can do without one expects a ValueError."""


def remember(answer, say_known, places, recorders):
    """Remember what there is now. What is returned begins the observing: call it with the key, here or in a fork.

    `answer(request, namespace)` runs a probe; `say_known` takes what knows the classes of now. `places` are the
    beginnings of the names of trusted files, and `recorders` the code that may say what the simulated GPUs did.
    """
    register_operators = _ask_before_operators_are_overridden()
    known = {id(kind): kind for kind in all_classes()}
    say_known(lambda kind: id(kind) in known)
    guard = _Guard(known.values())
    flags: list[str] = []
    state = {"last": 0, "busy": False, "main": 0, "thread": 0, "probe": {}, "names": []}
    log: list = []
    accounts = _Accounts(guard.machine)
    during: list[str] = []
    asking: set[int] = set()
    notes = _Notes()
    getframe, get_ident = sys._getframe, _thread.get_ident
    start, new_lock = _thread.start_new_thread, _thread.allocate_lock
    gc_callbacks = gc.callbacks
    signer, secret = {}, []
    modes = mode_counters()

    def sign(kind, message):
        one = signer[kind].copy()
        one.update(message)
        return one.hexdigest()

    def deciphered(number, probe):
        """The probe's text: see `KernelStudent._encipher`."""
        sealed = a2b_base64(probe)
        stream = shake_256(secret[0] + number.encode()).digest(len(sealed))
        return (int.from_bytes(sealed, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(sealed), "big").decode()

    def look(request, namespace, box):
        payload, _, signature = request.partition(".")
        number, _, probe = payload.partition("-")
        # Where no cell has run since the last look, all was in its place. What is not, a thread has replaced meanwhile.
        number, looked = number.rstrip("+"), number.endswith("+")
        if sign(b"ask", payload.encode()) != signature or int(number) <= state["last"]:
            return
        state["last"] = int(number)
        before = guard.put_back(near=looked)
        guard.empty_caches()
        if not accounts.right():
            before.append("the accounts of simulated memory")
        done, replies = new_lock(), []
        during.clear()
        state["probe"], state["names"] = {}, []
        notes.begin()
        done.acquire()

        def run():
            state["thread"] = get_ident()
            try:
                replies.append(answer(deciphered(number, probe), namespace))
                if any(count() for count in modes):
                    during.append("what PyTorch does, by a mode that was left on")
            except BaseException:
                replies.append("!")
            done.release()

        start(run, ())
        done.acquire()
        during.extend(guard.put_back())
        # More than once: a thread of the notebook may be replacing and putting back all the time.
        for _ in range(3):
            after_a_call()
        during.extend(guard.broken)
        if not guard.put_log_back(log):
            during.append("the log of the simulated GPUs")
        told = list(dict.fromkeys(during))
        reply = replies[0] if replies and type(replies[0]) is str and replies[0].isascii() else "!"
        # All of it is letters, digits and marks that no quotes are put around: text that prints as it is.
        message = ";".join([number, _listed(before), _listed(told), _listed(flags), reply])
        box.append(f"{message}.{sign(b'answer', message.encode())}")

    def after_a_call():
        """What the student's code may have replaced for the time of one call."""
        during.extend(guard.put_back(near=True))
        if not notes.right():
            during.append("what was noted of its run")
        if not _same(state["probe"].values(), state["names"]):
            during.append("a name of the grader's")
        if not accounts.right():
            during.append("the accounts of simulated memory")

    def may_see_frames(frame):
        """The standard library may when itself asks, not when the notebook does."""
        caller = frame.f_back
        return frame.f_code.co_filename.startswith(places) and (
            caller is None or caller.f_code.co_filename.startswith(places)
        )

    def leads_here(frame):
        while frame is not None:
            if frame.f_code in hidden:
                return True
            frame = frame.f_back
        return False

    def hook(event, args):
        if event not in ANSWERED:
            return
        if event in ("simgpu.record", "simgpu.memory", "simgpu.cleared"):
            if _caller(getframe, asking) in recorders:
                if event == "simgpu.memory":
                    accounts.change(*args)
                elif event == "simgpu.cleared":
                    log.clear()
                    accounts.begin()
                else:
                    log.append(args[0])
                if len(log) > 2 * LOGGED:
                    del log[:LOGGED]
        elif event == "course.look":
            request, namespace, box = args
            if type(request) is str and type(namespace) is dict and type(box) is list and not state["busy"]:
                # Nothing of the notebook may run in the look's own frames: no callback of the garbage collector.
                callbacks = gc_callbacks[:]
                gc_callbacks.clear()
                state["busy"] = True
                try:
                    look(request, namespace, box)
                finally:
                    state["busy"] = False
                    gc_callbacks.extend(callbacks)
        elif event == "course.called" or (event == "course.computed" and any(count() for count in modes)):
            if state["busy"]:
                after_a_call()
        elif event == "course.probe":
            if state["busy"] and _caller(getframe, asking) is answers:
                state["probe"] = args[0]
                state["names"] = list(args[0].values())
        elif event in ("course.noted", "simgpu.listening", "simgpu.unfinished"):
            if state["busy"] and _caller(getframe, asking) in recorders:
                notes.hear(event, *args)
        elif event == "course.library":
            what, found = args
            if type(what) is tuple and type(found) is list and type(what[1]) is str:
                if what[1] in OWN_OPERATORS:
                    _flag(flags, f"it tried to override operators of {what[1]}, which is refused")
                else:
                    found.append(register_operators(*what))
        elif event == "object.__getattr__" and args[1] == "__code__":
            # The course itself may ask, when no code of the notebook does.
            of_a_probe = type(args[0]) is types.FunctionType and args[0].__globals__ is state["probe"]
            if state["busy"] and of_a_probe and _any_from_elsewhere(getframe, asking, places):
                raise Refused("the code of a test cannot be read")
        elif event == "sys._getframe" or (event == "object.__getattr__" and args[1] in FRAMES):
            here = get_ident()
            if here in asking:
                return
            # Nothing of the notebook may run in here: a callback of the garbage collector would be let through.
            collecting = GC_IS_ON()
            GC_OFF()
            asking.add(here)
            try:
                caller = getframe(1)
                frame = args[0] if event == "sys._getframe" else getattr(args[0], args[1])
                refused = (state["busy"] and not may_see_frames(caller)) or leads_here(frame)
                # What a helper's generator holds is not shown, and another thread has nothing to look for in a frame.
                if event != "sys._getframe" and frame is not None:
                    of_the_course = frame.f_code.co_filename.startswith(places[0])
                    refused |= of_the_course and args[1] != "tb_frame"
                    refused |= state["busy"] and here not in (state["thread"], state["main"])
            finally:
                asking.discard(here)
                if collecting:
                    GC_ON()
            if refused:
                raise Refused("frames cannot be looked at here")
        elif event == "object.__setattr__":
            # The code, bases or class of something: not a value that could be put back later.
            if guard.holds(args[0]):
                raise PermissionError(f"{args[1]} of it cannot be changed while this is graded")
        elif event in REFUSED:
            _flag(flags, f"it tried {event}, which is refused")
            raise PermissionError(f"{event} is not available while this is graded")
        elif event in ("sys.setprofile", "sys.settrace"):
            if get_ident() != state["main"]:
                raise PermissionError(f"{event} is not available while an answer is looked at")
        elif event == "marshal.loads":
            # Such code may say that it is from any file.
            if not _caller(getframe, asking).co_filename.startswith(places):
                raise PermissionError(f"{event} is not available while this is graded")
        elif event in LEADS_TO_PROBES:
            if state["busy"]:
                _flag(flags, f"it tried {event} while an answer was looked at, which is refused")
                raise PermissionError(f"{event} is not available while an answer is looked at")
            if event != "gc.get_objects":
                _flag(flags, f"it calls {event}")
        elif event in ("compile", "code.__new__"):
            name = args[1]
            pretends = type(name) is str and name.startswith(places)
            if pretends and not _caller(getframe, asking).co_filename.startswith(places):
                raise PermissionError("code of the notebook cannot call itself part of the course")

    def begin(key):
        state["main"] = get_ident()
        signer.update({kind: blake2b(key=key, person=kind) for kind in (b"ask", b"answer")})
        secret.append(blake2b(key=key, person=b"encipher").digest())
        _no_handlers()
        # What exists now is not found by gc.get_objects() any more, the hook included.
        del gc.unfreeze
        sys.addaudithook(hook)
        gc.collect()
        gc.freeze()

    answers = answer.__code__
    hidden = {function.__code__ for function in (hook, look, sign, deciphered, after_a_call, begin)}
    return begin


def _caller(getframe, asking):
    """The code that is running below the hook."""
    here = GET_IDENT()
    collecting = GC_IS_ON()
    GC_OFF()
    asking.add(here)
    try:
        return getframe(2).f_code
    finally:
        asking.discard(here)
        if collecting:
            GC_ON()


def _any_from_elsewhere(getframe, asking, places):
    """Whether code of another file than the trusted ones is running, anywhere below the hook in this thread."""
    here = GET_IDENT()
    collecting = GC_IS_ON()
    GC_OFF()
    asking.add(here)
    try:
        frame = getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(places):
            frame = frame.f_back
        return frame is not None
    finally:
        asking.discard(here)
        if collecting:
            GC_ON()


def _no_handlers():
    """A signal's handler is given the frame that it interrupts: from now on none can be set."""
    import _signal
    import importlib

    for name in sys.builtin_module_names:  # so that none has to be made again
        with suppress(ImportError):
            importlib.import_module(name)
    for module in (signal, _signal):
        module.signal = _sets_nothing
        module.setitimer = module.alarm = _sets_nothing
    import _imp

    _imp.create_builtin = _sets_nothing


def _sets_nothing(*_):
    return None


def _ask_before_operators_are_overridden():
    """Have PyTorch ask the hook before it registers kernels for operators; returns the function that registers them."""

    def ask(*what):
        found = []
        sys.audit("course.library", what, found)
        if not found:
            raise PermissionError(f"operators of {what[1]} cannot be overridden while this is graded")
        return found[0]

    return let_libraries_ask(ask)


def _listed(texts):
    return ",".join([hexlify(text.encode("utf-8", "replace")).decode() for text in texts[:MANY] if type(text) is str])


def _flag(flags, text):
    if text not in flags and len(flags) < MANY:
        flags.append(text)


def all_classes():
    found, waiting = {}, [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            waiting += type.__subclasses__(kind)
    return list(found.values())


def _trusted(name):
    return isinstance(name, str) and (name in EXACTLY or name.split(".")[0] in TRUSTED or name.startswith(PREFIXES))


PREFIXES = tuple(name for one in TRUSTED for name in (one, f"{one}.") if "." in one)


class _Guard:
    """What the modules and classes of TRUSTED hold, and how to put it back."""

    def __init__(self, classes):
        from simgpu.hardware import machine

        self.machine, self.logs = machine, type(machine.log)
        self.broken, self.kept = [], []  # what cannot be put back, and what was put out
        self.modules = {name: module for name, module in sys.modules.items() if _trusted(name)}
        self.real_modules = sys.modules
        self.owners = [(name, module, vars(module)) for name, module in self.modules.items()]
        dict_of, module_of = type.__dict__["__dict__"].__get__, type.__dict__["__module__"].__get__
        for kind in classes:
            module = module_of(kind)
            if _trusted(module) or module == "builtins":
                self.owners.append((f"{kind.__module__}.{kind.__qualname__}", kind, dict_of(kind)))
        self.spaces = [(number, space) for number, (_, _, space) in enumerate(self.owners)]
        self.near = [(number, space) for number, space in self.spaces if _is_near(self.owners[number][1])]
        self.heads = {}  # by what was asked about: views of the heads of dicts, and what these were when last looked at
        if _heads_tell_changes():
            spaces = {"all": self.spaces, "near": self.near, "modules": [(0, sys.modules)]}
            self.heads = {which: _looked_at([_head(space) for _, space in them]) for which, them in spaces.items()}
        self.saved = [dict(space) for _, _, space in self.owners]
        # As they are now. Compared by identity, and not by id(), each of whose calls raises an auditing event.
        self.values = [list(space.values()) for space in self.saved]
        self.held = {id(owner): owner for _, owner, _ in self.owners}
        self.tables, self.caches = [], []  # (name, table, what is in it), and tables that are emptied
        for number, (name, owner, _) in enumerate(self.owners):
            if _has_tables(owner):
                for key, value in self.saved[number].items():
                    if not key.startswith("__"):
                        self._hold_table(f"{name}.{key}", value)
        # All of them in one go: looked at after each call. These views are of what is there then.
        self.views = [view for _, table, _ in self.tables for view in _views(table)]
        self.lengths, self.entries = [*map(len, self.views)], [*chain.from_iterable(self.views)]
        self.cells, self.contents = [], []
        for number, _ in self.near:
            self._hold_all(number)
        self.near_cells = self.cells[:], self.contents[:]
        for number, _ in self.spaces:
            self._hold_all(number)

    def _hold_all(self, number):
        for value in self.saved[number].values():
            self._hold(value)

    def _hold(self, value):
        """Remember a function, and what its closure holds."""
        value = value.__func__ if type(value) in (staticmethod, classmethod) else value
        if type(value) is not types.FunctionType or id(value) in self.held:
            return
        self.held[id(value)] = value
        for cell in value.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if _decides(content):
                self.cells.append(cell)
                self.contents.append(content)
                self._hold(content)

    def _hold_table(self, name, table):
        """Remember what is in a table, and in tables in it."""
        if type(table) not in CONTAINERS or name in GROWS or any(table is held for _, held, _ in self.tables):
            return
        if name in CACHES:
            self.caches.append(table)
            return
        self.tables.append((name, table, _contents(table)))
        for value in _contents(table):
            self._hold_table(name, value)

    def empty_caches(self):
        for cache in self.caches:
            cache.clear()

    def holds(self, thing):
        return id(thing) in self.held

    def put_log_back(self, log):
        """Whether the simulated machine's log ends as `log` does: what it did, and nothing else. Then it does."""
        mine = self.machine.log
        if type(mine) is self.logs and _same(mine, log[len(log) - min(len(log), mine.maxlen) :]):
            return True
        self.machine.log = self.logs(log, maxlen=LOGGED)
        return False

    def _changed(self, which, spaces):
        """Those of these dicts that may have changed since this was last asked."""
        if not self.heads:
            return spaces
        heads, before = self.heads[which]
        self.heads[which] = heads, now = _looked_at(heads)
        if now == before:
            return ()
        return [space for space, old, new in zip(spaces, before, now, strict=True) if old != new]

    def put_back(self, near=False):
        """Undo what was replaced, or only what was near; returns the names of what it was."""
        changed = []
        sys.modules = self.real_modules
        if self._changed("modules", (0,)) and not _same([*map(sys.modules.get, self.modules)], self.modules.values()):
            for name, module in self.modules.items():
                if sys.modules.get(name) is not module:
                    sys.modules[name] = module
                    changed.append(f"sys.modules[{name!r}]")
        if not _whole(*(self.near_cells if near else (self.cells, self.contents))):
            for cell, content in zip(self.cells, self.contents, strict=True):
                cell.cell_contents = content
            changed.append("what a function of the grader has in its closure")
        values = self.values
        for number, space in self._changed("near", self.near) if near else self._changed("all", self.spaces):
            # As in _same: thousands of times after each look, where heads tell nothing.
            if len(space) != len(values[number]) or not all(map(is_, space.values(), values[number])):
                name, owner, _ = self.owners[number]
                # A key that is no text is no name, and may do something when it is compared.
                found = {key: value for key, value in space.items() if type(key) is str}
                changed += self._undo(name, owner, found, self.saved[number])
                values[number] = list(space.values())
        if [*map(len, self.views)] != self.lengths or not all(map(is_, chain.from_iterable(self.views), self.entries)):
            for name, table, contents in self.tables:
                if not _same(_contents(table), contents):
                    _refill(table, contents)
                    changed.append(f"what is in {name}")
        return changed

    def _undo(self, name, owner, now, saved):
        """Put back the functions and classes of one module or class; returns the name of each."""
        module, changed = isinstance(owner, types.ModuleType), []
        put, drop = (setattr, delattr) if module else (type.__setattr__, type.__delattr__)
        for key in [*saved, *(key for key in now if key not in saved)]:
            old, new = saved.get(key, MISSING), now.get(key, MISSING)
            if old is new or not (_decides(old) or _decides(new)) or f"{name}.{key}" in KERNELS_OWN:
                continue
            # A new name in a module changes nothing that exists, unless it hides a builtin.
            if module and old is MISSING and (owner is builtins or key not in vars(builtins)):
                continue
            self.kept.append(new)  # its __del__, if it has one, does not run in here
            try:
                drop(owner, key) if old is MISSING else put(owner, key, old)
            except (AttributeError, TypeError):
                self.broken.append(f"{name}.{key}")
            changed.append(f"{name}.{key}")
        return changed


class _Notes:
    """What helpers have added to the lists of a probe, counted a second time from what they say that they do."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.books, self.listening = {}, []  # by its id: a list, and what should be in it

    def hear(self, event, *args):
        if event == "simgpu.unfinished":
            for book in self.listening:
                book[1].append(args[0])
            return
        found, what = args
        # What was in a list before it was first added to is the probe's own.
        book = self.books.setdefault(id(found), [found, found[:-1] if event == "course.noted" else []])
        if event == "course.noted":
            book[1].append(what)
        elif what:
            self.listening.append(book)
        else:
            self.listening.remove(book)

    def right(self):
        return all(_same(found, right) for found, right in self.books.values())


class _Accounts:
    """The memory of the simulated GPUs, counted a second time from what simgpu says that it does.

    The student's code may have threads of its own that use the GPUs. Python may switch between them when one has
    changed a GPU's memory and not yet said so, and what another then says comes first: a peak may seem higher by so
    much. The tolerance is for that. With one thread, as in a backward pass on simulated GPUs, there is none.
    """

    def __init__(self, machine):
        self.machine, self.books, self.wrong = machine, {}, False
        self.largest, self.threads = 0, set()
        self.begin()

    def begin(self):
        """The machine has just been configured: its memories are new."""
        for gpu in self.machine.gpus:
            memory = gpu.memory
            self.books.setdefault(id(memory), [memory, memory.capacity, memory.allocated, memory.peak])

    def change(self, memory, more):
        """`more` bytes were taken, or the peak was reset where it is None."""
        book = self.books.get(id(memory))
        if book is None or memory.capacity != book[1]:
            self.wrong = True
        elif more is None:
            book[3] = book[2]
        else:
            self.threads.add(GET_IDENT())
            self.largest = max(self.largest, more, -more)
            book[2] += more
            book[3] = max(book[2:])
            if book[2] > book[1] + self._unsaid():
                self.wrong = True

    def right(self):
        """Whether the machine's own accounts have always said the same, since this was last asked. Now they do."""
        right = not self.wrong
        for memory, capacity, allocated, peak in self.books.values():
            same = (memory.capacity, memory.allocated) == (capacity, allocated) and memory.peak >= peak - self._unsaid()
            if not same:
                memory.capacity, memory.allocated, memory.peak = capacity, allocated, peak
                right = False
        self.wrong, self.largest = False, 0
        self.threads.clear()
        return right

    def _unsaid(self):
        return self.largest * (len(self.threads) - 1)


def _is_near(owner):
    if isinstance(owner, types.ModuleType):
        name = owner.__name__
    elif owner.__module__ in ("builtins", "torch", "torch._C"):
        return vars(builtins).get(owner.__name__) is owner or owner.__name__ in NEAR_CLASSES
    else:
        name = owner.__module__
    return name in NEAR or name == "utils" or name.startswith(NEAR_PACKAGES)


def _has_tables(owner):
    if isinstance(owner, types.ModuleType):
        return owner.__name__ in HOOKED or owner.__name__.startswith(("utils.", "simgpu"))
    return _is_near(owner)


def _views(table):
    return (table.keys(), table.values()) if isinstance(table, dict) else (table,)


def _contents(table):
    """What is in a table, in order: of a dict the keys, then the values."""
    return [*chain.from_iterable(_views(table))]


def _refill(table, contents):
    table.clear()
    if isinstance(table, dict):
        half = len(contents) // 2
        table.update(zip(contents[:half], contents[half:], strict=True))
    elif type(table) is set:
        table.update(contents)
    else:
        table.extend(contents)


def _head(space):
    """A view of the head of a dict, or of the one of a class: its length, its version, and where its entries are."""
    import ctypes

    [space] = [space] if type(space) is dict else gc.get_referents(space)
    begin, end = object.__basicsize__, dict.__basicsize__
    return memoryview((ctypes.c_char * (end - begin)).from_address(id(space) + begin)).toreadonly()


def _looked_at(heads):
    return heads, [*map(TO_BYTES, heads)]


def _heads_tell_changes():
    """Whether this Python gives a dict another version with each change (PEP 509): 3.14 does not any more.

    A look at heads takes a tenth of the time of one at all values. It touches none of these, so that a fork need not
    copy their pages for a count of references.
    """
    if sys.implementation.name != "cpython":
        return False
    module, kind = types.ModuleType("one"), type("One", (), {})

    def put(owner):
        owner.name = object()

    def tells(space, change):
        view = _head(space)
        before = view.tobytes()
        change()
        return view.tobytes() != before

    ways = [lambda: put(module)] * 100  # the interpreter has a faster way for what it has done often
    ways += [lambda: vars(module).update(name=1), lambda: vars(module).__setitem__("name", 2), vars(module).popitem]
    of_module = all([tells(vars(module), change) for change in ways])
    ways = [lambda: put(kind), lambda: put(kind), lambda: delattr(kind, "name")]
    return of_module and all([tells(vars(kind), change) for change in ways])


def _whole(cells, contents):
    try:
        return _same([*map(CONTENT_OF, cells)], contents)
    except ValueError:  # one is empty
        return False


def _same(some, others):
    """Whether two collections hold the very same objects in the same order."""
    return len(some) == len(others) and all(map(is_, some, others))


def _decides(value):
    """Whether a value decides what code does: functions, classes, properties, modules. Counters and caches do not."""
    return callable(value) or isinstance(value, types.ModuleType) or hasattr(type(value), "__get__")
