"""Looking at a stranger's objects without asking them: the class of a thing says what it is, the thing does not.

A probe that says `output.device` would ask the output, and an object of a class that the student wrote may answer
anything. `rewritten` turns each such look in a probe's text into `look(output, "device")`, which reads it through
PyTorch's own class and refuses what only passes for a tensor or a module. After each call it raises Python's auditing
event "course.called": the observer then sees what the student's code has replaced, before anybody uses it.
"""

from __future__ import annotations

import ast
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import CodeType

from utils.facts import StudentError

# Stand for `look` and `sys.audit` in the text of a probe. In its code these are constants: a name, whoever is given a
# function of the probe could replace.
LOOK, AUDIT = "\0look", "\0audit"
CALLED = "course.called"
# What probes call that runs nothing of the student's, however it is called. (`str` and `len` would ask an object.)
MODULES = {"torch", "nn", "np", "math", "simgpu"}
SIMPLE = {"range", "enumerate", "zip", "isinstance", "type"}
# What probes read from tensors and parameters, and from modules.
OF_TENSORS = {
    *("backward", "clone", "cpu", "data", "data_ptr", "detach", "device", "double", "dtype", "element_size", "float"),
    *("grad", "grad_fn", "is_leaf", "item", "layout", "mean", "nbytes", "numel", "numpy", "requires_grad", "shape"),
    *("square", "storage_offset", "stride", "sum", "tolist", "untyped_storage"),
}
OF_MODULES = {
    *("buffers", "children", "modules", "named_buffers", "named_children", "named_modules", "named_parameters"),
    *("parameters", "state_dict"),
}
# A class that has one of these of its own can show other layers than those that compute.
HOLDERS = ("_parameters", "_buffers", "_modules")
NOT_OWN = OF_MODULES | {"__getattribute__", "__class__", "_named_members", "_parameters", "_buffers", "_modules"}


class _Looks(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and node.attr in OF_TENSORS | OF_MODULES:
            return ast.copy_location(_call(LOOK, node.value, ast.Constant(node.attr)), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`f(x)` becomes `(f(x), audit("course.called"))[0]`, unless `f` runs nothing of the student's."""
        self.generic_visit(node)
        if _runs_nothing(node.func):
            return node
        both = ast.Tuple([node, _call(AUDIT, ast.Constant(CALLED))], ast.Load())
        return ast.copy_location(ast.Subscript(both, ast.Constant(0), ast.Load()), node)


def _runs_nothing(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id in MODULES
    return isinstance(function, ast.Name) and function.id in SIMPLE


def _call(stand_in: str, *arguments: ast.expr) -> ast.Call:
    # Python warns of text that is called, and not of this.
    function = ast.IfExp(ast.Constant(True), ast.Constant(stand_in), ast.Constant(None))
    return ast.Call(function, list(arguments), [])


def rewritten(source: str, look: Callable, name: str = "<probe>") -> CodeType:
    """The code of a probe, with its looks made strict. `look` is a `looker`."""
    code = compile(ast.fix_missing_locations(_Looks().visit(ast.parse(source))), name, "exec")
    return _filled_in(code, {LOOK: look, AUDIT: sys.audit})


def _filled_in(code: CodeType, meant: dict) -> CodeType:
    constants = [
        _filled_in(value, meant) if type(value) is CodeType else meant[value] if _stands_in(value) else value
        for value in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def _stands_in(value) -> bool:
    return type(value) is str and value in (LOOK, AUDIT)


def looker(known: Callable[[type], bool]) -> Callable[[object, str], object]:
    """`look(thing, name)`: what `thing.name` is, where the class of `thing` is one that `known` knows.

    A module of the student's own class is looked at as the `nn.Module` that it is.
    """
    from torch import Tensor, nn

    mro_of = type.__dict__["__mro__"].__get__

    def look(thing, name: str):
        kind = type(thing)
        mro = mro_of(kind)
        if known(kind):
            if nn.Module in mro:
                return _of_module(thing, kind, mro, name)
            return getattr(kind, name).__get__(thing, kind) if Tensor in mro else getattr(thing, name)
        if nn.Module in mro:
            return _of_module(thing, kind, mro, name)
        if Tensor in mro:
            raise StudentError(f"There is a {kind.__name__}, a class of tensors that the notebook made: use PyTorch's.")
        if name in OF_MODULES:
            raise StudentError(f"A {kind.__name__} stands where a module should be. Is its class an nn.Module?")
        raise StudentError(f"A {kind.__name__} stands where a tensor should be.")

    def refuse_what_lies(thing):
        """Raise StudentError where a module, or one inside it, can show other parameters than it computes with."""
        waiting, seen = [thing], set()
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            kind, mro = type(each), mro_of(type(each))
            if nn.Module not in mro:
                raise StudentError(f"A {kind.__name__} stands where a module should be. Is its class an nn.Module?")
            for parent in mro[: mro.index(nn.Module)]:
                own = () if known(parent) else sorted(NOT_OWN & type.__dict__["__dict__"].__get__(parent).keys())
                if own:
                    raise StudentError(f"{kind.__name__} has {own[0]} of its own: what is graded keeps nn.Module's.")
            inside = object.__getattribute__(each, "__dict__")
            own = sorted(NOT_OWN & inside.keys() - set(HOLDERS))
            if own or any(type(inside.get(holder)) not in (dict, OrderedDict) for holder in HOLDERS):
                raise StudentError(f"A {kind.__name__} has {(own or HOLDERS)[0]} of its own: keep nn.Module's.")
            waiting += inside["_modules"].values()

    def _of_module(thing, kind: type, mro, name: str):
        if name in OF_TENSORS:  # a module has none of these, except what the student gave it
            return getattr(thing, name)
        refuse_what_lies(thing)
        return getattr(thing, name)

    return look
