"""The observer in a student's process. `inside.py` runs this text in a namespace that nothing else can reach.

Before a line of the student's code runs, `seal` remembers the functions and classes that looking depends on, and adds
an audit hook: Python has no way to list or remove those. The hook answers one event, "course.look":

1. the request has to be signed with the key that only the grader and the hook have, and be newer than the last;
2. functions and classes that were replaced are put back, and their names are told;
3. the probe runs in a new thread, whose frames lead nowhere else;
4. what was replaced meanwhile makes the answer worthless, and is told;
5. the reply is signed.

What this holds against and what it does not is said in docs/instructors.md.
"""

import _thread
import binascii
import builtins
import gc
import json
import sys
import types
from _blake2 import blake2b

# Packages whose functions and classes a look goes through.
TRUSTED = (
    *("builtins", "types", "functools", "inspect", "linecache", "traceback", "textwrap", "ast", "copy", "io"),
    *("json", "base64", "contextlib", "dataclasses", "collections", "enum", "typing", "math", "statistics"),
    *("torch._tensor", "torch.nn", "torch.autograd", "torch.optim", "torch.utils", "torch._ops", "torch.overrides"),
    *("torch._C", "torch.random", "torch.serialization", "torch._utils", "torch.storage", "torch.functional"),
    *("numpy", "utils", "weakref", "abc", "operator", "itertools", "time", "csv"),
)
EXACTLY = ("torch",)
# The kernel itself replaces this one, each time a cell runs.
KERNELS_OWN = ("builtins.input",)
MANY = 20  # names told, at most
MISSING = types.SimpleNamespace()  # neither callable nor a descriptor


def seal(key: bytes, answer, say_known):
    """Start observing. `answer(request, namespace)` runs a probe; `say_known` takes what knows the classes of now."""
    known = {id(kind): kind for kind in _all_classes()}
    say_known(lambda kind: id(kind) in known)
    guard = _Guard(known.values())
    flags: list[str] = []
    state = {"last": 0, "busy": False}

    def look(request, namespace, box):
        payload, _, signature = request.partition(".")
        if blake2b(payload.encode(), key=key, person=b"ask").hexdigest() != signature:
            raise PermissionError("this request was not signed by the grader")
        number, _, probe = payload.partition("-")
        if int(number) <= state["last"] or state["busy"]:
            raise PermissionError("this request was used before")
        state["last"], state["busy"] = int(number), True
        before = guard.put_back()
        done, replies = _thread.allocate_lock(), []
        done.acquire()

        def run():
            try:
                replies.append(answer(probe, namespace))
            except BaseException as error:
                replies.append(f"!{type(error).__name__}")
            done.release()

        _thread.start_new_thread(run, ())
        done.acquire()
        during = guard.put_back()
        state["busy"] = False
        reply = replies[0] if replies and type(replies[0]) is str else "!"
        told = json.dumps([int(number), before[:MANY], during[:MANY], flags, reply]).encode()
        signature = blake2b(told, key=key, person=b"answer").hexdigest()
        box.append(f"{binascii.b2a_base64(told, newline=False).decode()}.{signature}")

    def hook(event, args):
        if event == "course.look":
            look(*args)
        elif event == "object.__setattr__":
            # The code, bases or class of something: not a value that could be put back later.
            if guard.holds(args[0]):
                raise PermissionError(f"{args[1]} of {_name(args[0])} cannot be changed while this is graded")
        elif event in ("sys.addaudithook", "sys._current_frames", "sys.monitoring.register_callback"):
            raise PermissionError(f"{event} is not available while this is graded")
        elif event.startswith("ctypes.") and event not in ("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle"):
            _flag(flags, "it reaches into memory with ctypes")
        elif event in ("gc.get_referrers", "gc.get_referents"):
            _flag(flags, f"it calls {event}")
        elif event == "open" and isinstance(args[0], str) and args[0].startswith("/proc/") and args[0].endswith("/mem"):
            raise PermissionError("memory is not a file here")

    # What exists now is not found by gc.get_objects() any more, the hook included.
    del gc.unfreeze
    sys.addaudithook(hook)
    gc.collect()
    gc.freeze()


def _flag(flags, text):
    if text not in flags and len(flags) < MANY:
        flags.append(text)


def _name(thing):
    return str(getattr(thing, "__qualname__", getattr(thing, "__name__", "it")))[:80]


def _all_classes():
    found, waiting = {}, [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            waiting += type.__subclasses__(kind)
    return list(found.values())


def _trusted(name):
    return isinstance(name, str) and (
        name in EXACTLY or name in TRUSTED or name.startswith(tuple(f"{t}." for t in TRUSTED))
    )


class _Guard:
    """What the modules and classes of TRUSTED hold, and how to put it back."""

    def __init__(self, classes):
        self.modules = {name: module for name, module in sys.modules.items() if _trusted(name)}
        self.real_modules = sys.modules
        self.owners = [(name, module, vars(module)) for name, module in self.modules.items()]
        dict_of = type.__dict__["__dict__"].__get__
        for kind in classes:
            # A class that is not made by Python code cannot be changed by any.
            if (
                kind.__flags__ & (1 << 9)
                and not kind.__flags__ & (1 << 8)
                and _trusted(kind.__dict__.get("__module__"))
            ):
                self.owners.append((f"{kind.__module__}.{kind.__qualname__}", kind, dict_of(kind)))
        self.saved = [dict(space) for _, _, space in self.owners]
        self.ids = [list(map(id, space.values())) for space in self.saved]
        self.held = {id(owner): owner for _, owner, _ in self.owners}
        self.cells = []
        for space in self.saved:
            for value in space.values():
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
                self.cells.append((cell, content))
                self._hold(content)

    def holds(self, thing):
        return id(thing) in self.held

    def put_back(self):
        """Undo what was replaced; returns the names of what it was."""
        changed = []
        sys.modules = self.real_modules
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                changed.append(f"sys.modules[{name!r}]")
        for cell, content in self.cells:
            if cell.cell_contents is not content:
                cell.cell_contents = content
                changed.append(f"the closure that held {_name(content)}")
        for number, (name, owner, space) in enumerate(self.owners):
            now = list(map(id, space.values()))
            if now != self.ids[number]:
                changed += self._undo(name, owner, dict(space), self.saved[number])
                self.ids[number] = list(map(id, space.values()))
        return changed

    def _undo(self, name, owner, now, saved):
        """Put back the functions and classes of one module or class; yields the name of each."""
        module = isinstance(owner, types.ModuleType)
        put, drop = (setattr, delattr) if module else (type.__setattr__, type.__delattr__)
        for key in [*saved, *(key for key in now if key not in saved)]:
            old, new = saved.get(key, MISSING), now.get(key, MISSING)
            if old is new or not (_decides(old) or _decides(new)) or f"{name}.{key}" in KERNELS_OWN:
                continue
            # A new name in a module changes nothing that exists, unless it hides a builtin.
            if module and old is MISSING and (owner is builtins or key not in vars(builtins)):
                continue
            try:
                drop(owner, key) if old is MISSING else put(owner, key, old)
            except (AttributeError, TypeError):
                continue
            yield f"{name}.{key}"


def _decides(value):
    """Whether a value decides what code does: functions, classes, properties, modules. Counters and caches do not."""
    return callable(value) or isinstance(value, types.ModuleType) or hasattr(type(value), "__get__")
