"""Looking at a stranger's objects without asking them: the class of a thing says what it is, the thing does not.

A probe that says `output.device` would ask the output, and an object of a class that the student wrote may answer
anything. `rewritten` turns each attribute that a probe reads into `look(output, "device")`, but for what rules.py lets
it read as it is. `look` reads what MAY_READ has, through the class of PyTorch or Python that has it, and refuses what
only passes for such a thing. After each call that may have run code of the notebook the probe raises Python's auditing
event "course.called": the observer then sees what that code has replaced, before anybody uses it. Where what is called
is Python's own, and so is all that it is given, no code of the notebook can have run, and there is no event.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import BuiltinMethodType, CodeType, GetSetDescriptorType, ModuleType, NoneType

from utils.exercises.facts.errors import StudentError
from utils.exercises.facts.rules import MAY_READ, READABLE, ProbeNames

# Stand for `look`, `sys.audit`, `of_builtin` and `of_method` in the text of a probe. In its code these are constants:
# code that is given a function of the probe could replace a name.
LOOK, AUDIT, BUILTIN, METHOD = "\0look", "\0audit", "\0builtin", "\0method"
PROBES = "utils.exercises.facts.probes"
# The notebook's code may have run; or it has not, unless a mode of PyTorch is on that it has left.
CALLED, COMPUTED = "course.called", "course.computed"
KINDS_WITH = {name: tuple(what for what, names in MAY_READ.items() if name in names) for name in READABLE}
# What probes call that runs nothing of the student's, however it is called. (`str` and `len` would ask an object.)
MODULES = {"torch", "nn", "np", "math", "simgpu"}
SIMPLE = {"range", "enumerate", "zip", "isinstance", "type"}
# What it calls of tensors, nodes, lists and text that runs PyTorch's and Python's code only. Not what makes a node of
# the backward graph, which may have a hook, and not what asks objects whether they are equal.
COMPUTING = {
    *("add_", "copy_", "detach", "normal_", "numel", "uniform_", "name", "manual_seed"),
    *("append", "clear", "copy", "items", "join", "pop", "ravel", "startswith"),
}
# Python's own functions that ask what they are given, or what is in it; and some of those take a list for a generator.
ASKING = {
    function.__name__: function
    for function in (all, any, bool, float, int, len, list, max, min, repr, set, sorted, str, sum, tuple)
}
TAKES_ALL = {"list", "max", "min", "set", "sorted", "sum", "tuple"}
# Methods of Python's own collections that ask what is in them.
ASKING_METHODS = {"count", "get"}
# Asked as they are, and in Python's own collections: no class of the notebook has a part in it.
ATOMS = frozenset({bool, float, int, str, NoneType})
KEPT_IN = frozenset({dict, list, set, tuple, type({}.keys()), type({}.values())})
# And of what was just detached.
OF_DETACHED = {"detach": {"cpu", "numpy"}, "cpu": {"numpy"}}
# Attributes that are PyTorch's or Python's own things: to write them as text or as a list asks no student's object.
PLAIN = {"device", "dtype", "shape", "__name__"}
# A class that has one of these of its own can show other layers than those that compute.
HOLDERS = ("_parameters", "_buffers", "_modules")
NOT_OWN = {
    *("buffers", "children", "modules", "named_buffers", "named_children", "named_modules", "named_parameters"),
    *("parameters", "state_dict", "__getattribute__", "__class__", "__dict__", "_named_members", *HOLDERS),
}


class _Looks(ast.NodeTransformer):
    def __init__(self, names: ProbeNames, tree: ast.Module):
        self.names = names
        probes = [node.names for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == PROBES]
        self.own = {alias.asname or alias.name for aliases in probes for alias in aliases}
        self.own |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        bound = _bound(tree)
        inner = {name for node in tree.body if isinstance(node, ast.FunctionDef) for name in _inner(node)}
        self.own |= {name for name in inner if bound[name] == 1}
        # Python's own, if the text gives nothing else that name.
        self.python = ASKING.keys() - bound.keys()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        free = self.names.free(node.value)
        self.generic_visit(node)
        if free or not isinstance(node.ctx, ast.Load):
            return node
        own = ast.Constant(node.attr in self.names.given)
        return ast.copy_location(_call(LOOK, node.value, ast.Constant(node.attr), own), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`f(x)` becomes `(f(x), audit("course.called"))[0]`, unless `f` runs nothing of the student's."""
        event = None if _runs_nothing(node, self.own) else COMPUTED if _only_computes(node) else CALLED
        function, plain = node.func, not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if event == CALLED and plain and isinstance(function, ast.Name) and function.id in self.python:
            if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp) and function.id in TAKES_ALL:
                given = node.args[0]
                node.args[0] = ast.copy_location(ast.ListComp(given.elt, given.generators), given)
            self.generic_visit(node)
            return ast.copy_location(_call(BUILTIN, ast.Constant(function.id), *node.args), node)
        asks = event == CALLED and plain and isinstance(function, ast.Attribute) and function.attr in ASKING_METHODS
        self.generic_visit(node)
        if event is None:
            return node
        if asks:
            return ast.copy_location(_call(METHOD, node.func, *node.args), node)
        both = ast.Tuple([node, _call(AUDIT, ast.Constant(event))], ast.Load())
        return ast.copy_location(ast.Subscript(both, ast.Constant(0), ast.Load()), node)


def _bound(tree: ast.AST) -> Counter[str]:
    """How often a text binds each name."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] += 1
        elif isinstance(node, ast.arg):
            found[node.arg] += 1
        elif isinstance(node, ast.alias):
            found[node.asname or node.name.split(".")[0]] += 1
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found[node.name] += 1
    return found


def _inner(probe: ast.FunctionDef) -> set[str]:
    """The functions in a probe that it only calls: neither they nor a function or class that uses them is passed on.

    What they call raises its own events. From a function that the notebook is given it could reach those that this
    one uses, and exchange them.
    """
    inside = [node for node in ast.walk(probe) if isinstance(node, ast.FunctionDef) and node is not probe]
    uses: dict[str, list] = {node.name: [] for node in inside}
    called: dict[str, int] = dict.fromkeys(uses, 0)

    def collect(node: ast.AST, around: tuple) -> None:
        if isinstance(node, ast.Name) and node.id in uses:
            uses[node.id].append(around if isinstance(node.ctx, ast.Load) else (ast.Lambda,))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in called:
            called[node.func.id] += 1
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)):
            around = (*around, node.name if isinstance(node, ast.FunctionDef) else type(node))
        for child in ast.iter_child_nodes(node):
            collect(child, around)

    for node in probe.body:
        collect(node, ())
    found = {name for name in uses if len(uses[name]) == called[name]}
    found -= {node.name for node in inside if node.decorator_list}
    found -= {name for node in ast.walk(probe) if isinstance(node, (ast.Nonlocal, ast.Global)) for name in node.names}
    while reached := {name for name in found for around in uses[name] if not found.issuperset(around)}:
        found -= reached
    return found


def _runs_nothing(call: ast.Call, own: set[str]) -> bool:
    """Whether a call runs nothing that is not looked after already: `own` functions are probes themselves."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id in MODULES
    if isinstance(function, ast.Name) and function.id == "getattr":
        return isinstance(call.args[0], ast.Name) and call.args[0].id in MODULES
    return isinstance(function, ast.Name) and function.id in SIMPLE | own


def _only_computes(call: ast.Call) -> bool:
    """Whether a call runs code of the notebook only where a mode is on."""
    function = call.func
    if isinstance(function, ast.Attribute):
        made_by = function.value.func if isinstance(function.value, ast.Call) else None
        if isinstance(made_by, ast.Name) and made_by.id == "random_numbers":  # a tensor of the probes' own
            return function.attr == "reshape"
        before = made_by.attr if isinstance(made_by, ast.Attribute) else ""
        return function.attr in COMPUTING | OF_DETACHED.get(before, set())
    if isinstance(function, ast.Call):  # getattr(nn, kind)(...)
        return isinstance(function.func, ast.Name) and function.func.id == "getattr" and _runs_nothing(function, set())
    plain = all(isinstance(argument, ast.Attribute) and argument.attr in PLAIN for argument in call.args)
    return isinstance(function, ast.Name) and function.id in ("str", "list", "tuple", "set") and plain


def _call(stand_in: str, *arguments: ast.expr) -> ast.Call:
    # Python warns of text that is called, and not of this.
    function = ast.IfExp(ast.Constant(True), ast.Constant(stand_in), ast.Constant(None))
    return ast.Call(function, list(arguments), [])


def rewritten(source: str, look: Callable, name: str = "<probe>") -> CodeType:
    """The code of a probe, or of a module of probes, that looks at what it reads. `look` is a `looker`."""
    tree = ast.parse(source)
    code = compile(ast.fix_missing_locations(_Looks(ProbeNames(tree), tree).visit(tree)), name, "exec")
    return _filled_in(code, {LOOK: look, AUDIT: sys.audit, BUILTIN: of_builtin, METHOD: of_method})


def of_builtin(name: str, *given):
    """What Python's own function of that name returns. Raises the event, but where it asks no code of the notebook."""
    is_own = all(_is_own(each, deep=name != "len") for each in given)
    found = ASKING[name](*given)
    if not is_own:
        sys.audit(CALLED)
    return found


def of_method(method: Callable, *given):
    """The same of a method, such as `{}.get`: its collection's things are asked whether they are equal, too."""
    holder = method.__self__ if isinstance(method, BuiltinMethodType) else None
    is_own = holder is not None and all(_is_own(each) for each in (holder, *given))
    found = method(*given)
    if not is_own:
        sys.audit(CALLED)
    return found


def _is_own(thing, *, deep: bool = True) -> bool:
    """Whether a thing is of Python's own kind and, where `deep`, all that is in it."""
    kind = type(thing)
    if kind in ATOMS:
        return True
    if kind not in KEPT_IN or not deep:
        return kind in KEPT_IN
    inside = [*thing, *thing.values()] if kind is dict else thing
    return all(type(each) in ATOMS for each in inside)


def _filled_in(code: CodeType, meant: dict) -> CodeType:
    constants = [
        _filled_in(value, meant) if type(value) is CodeType else meant[value] if _stands_in(value) else value
        for value in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def _stands_in(value) -> bool:
    return type(value) is str and value in (LOOK, AUDIT, BUILTIN, METHOD)


def looker(known: Callable[[type], bool]) -> Callable[[object, str, bool], object]:
    """`look(thing, name, own)`: what `thing.name` is, read through the class that has it.

    `known` says of a class whether it was there before the notebook's code; such a class answers for its objects, a
    class of the notebook never does. `own` names are those that the probe has itself put on its objects.
    """
    mro_of, dict_of = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    name_of, inside_of = type.__dict__["__name__"].__get__, object.__getattribute__
    nn, tensor, kinds = _kinds()

    def look(thing, name: str, own: bool = False):
        kind = type(thing)
        mro = mro_of(kind)
        if nn.Module in mro:
            return of_module(thing, mro, name, own)
        if tensor in mro and not known(kind):
            raise StudentError(f"There is a {name_of(kind)}, a class of tensors that the notebook made: use PyTorch's.")
        if own:
            return inside_of(thing, name)
        if not any(is_one(mro, what) for what in KINDS_WITH[name]):
            raise StudentError(_stands_for(name_of(kind), KINDS_WITH[name][0]))
        return through_a_known_class(thing, mro, name)

    def is_one(mro, what: str) -> bool:
        if what == "a node of the backward graph":  # each kind has a class, and they have no parent
            own = [dict_of(parent).get("next_functions") for parent in mro if known(parent)]
            return any(type(each) is GetSetDescriptorType for each in own)
        return any(kind in mro for kind in kinds[what])

    def through_a_known_class(thing, mro, name: str):
        """Python's way to an attribute, but past the classes of the notebook, and the class before the object."""
        found, parent = next(
            ((dict_of(parent)[name], parent) for parent in mro if known(parent) and name in dict_of(parent)),
            (None, None),
        )
        if hasattr(type(found), "__get__"):
            return found.__get__(thing, parent)  # pyright: ignore[reportOptionalMemberAccess]
        inside = inside_of(thing, "__dict__")
        if name not in inside and parent is None:
            raise StudentError(f"A {name_of(type(thing))} has no {name}.")
        return inside.get(name, found)

    def of_module(thing, mro, name: str, own: bool):
        wanted = KINDS_WITH.get(name, ["a module's own"] if own else [])
        if not {"a module", "a module's own"} & {*wanted}:
            raise StudentError(_stands_for(name_of(type(thing)), wanted[0]))
        refuse_what_lies(thing)
        if "a module" in wanted:
            return through_a_known_class(thing, mro, name)
        inside = inside_of(thing, "__dict__")
        for holder in (*(inside[holder] for holder in HOLDERS), inside):
            if name in holder:
                return holder[name]
        raise StudentError(f"A {name_of(type(thing))} has no {name}.")

    def refuse_what_lies(thing):
        """Raise StudentError where a module, or one inside it, can show other parameters than it computes with."""
        waiting, seen = [thing], set()
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            mro, kind = mro_of(type(each)), name_of(type(each))
            if nn.Module not in mro:
                raise StudentError(_stands_for(kind, "a module"))
            for parent in mro[: mro.index(nn.Module)]:
                own = () if known(parent) else sorted(name for name in NOT_OWN if lies(parent, name))
                if own:
                    raise StudentError(f"{name_of(parent)} has {own[0]} of its own: what is graded keeps nn.Module's.")
            inside = inside_of(each, "__dict__")
            own = sorted(NOT_OWN & inside.keys() - set(HOLDERS))
            if own or any(type(inside.get(holder)) not in (dict, OrderedDict) for holder in HOLDERS):
                raise StudentError(f"A {kind} has {(own or HOLDERS)[0]} of its own: keep nn.Module's.")
            waiting += inside["_modules"].values()

    def lies(kind: type, name: str) -> bool:
        """Whether a class has a name of its own. Each class whose parents have none has Python's own __dict__."""
        own = dict_of(kind)
        return name in own and (name != "__dict__" or type(own[name]) is not GetSetDescriptorType)

    return look


def _kinds() -> tuple:
    """nn.Module, torch.Tensor, and the classes of what MAY_READ names."""
    import numpy as np
    import torch
    from torch import nn

    from simgpu import Record
    from utils.observe.trace import Event, Timeline

    kinds = {
        "a tensor": (torch.Tensor,),
        "a module": (nn.Module,),
        "a module's own": (nn.Module,),
        "an optimizer": (torch.optim.Optimizer,),
        "a dict, a list, a set or text": (dict, list, set, tuple, str),
        "an array": (np.ndarray,),
        "a class": (type,),
        "a generator of random numbers": (torch.Generator,),
        "a module of torch for a kind of device": (ModuleType,),
        "a record of what devices did": (Timeline, Event, Record),
    }
    return nn, torch.Tensor, kinds


def _stands_for(kind: str, what: str) -> str:
    what, hint = ("a module", " Is its class an nn.Module?") if what.startswith("a module") else (what, "")
    return f"A {kind} stands where {what} should be.{hint}"
