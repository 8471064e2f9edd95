"""What an answer can change: the names that cells bind and use, and those that the facts of an exercise ask for.

Found by reading code. Where that cannot tell, the answer is taken to change, and the exercise to ask for, everything.
"""

from __future__ import annotations

import ast
import inspect
import re
import symtable
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from utils.facts import Exercise
from utils.files import ROOT

EVERYTHING = "*"
FACTS = str(ROOT / "tests")  # nothing elsewhere is a probe
# Calls that set something outside of the notebook, as torch.set_default_device or a hook for all modules.
SETS_SOMETHING = re.compile(r"set_|setattr$|manual_seed$|register_module_")


def bound(source: str) -> set[str]:
    """The names of the notebook that a cell binds."""
    top, *inner = _tables(source)
    own = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    return own | {s.get_name() for t in inner for s in t.get_symbols() if s.is_declared_global() and s.is_assigned()}


def used(source: str) -> set[str]:
    """The names of the notebook, or of Python, that a cell uses, its functions and classes included."""
    return {s.get_name() for t in _tables(source) for s in t.get_symbols() if s.is_global() and s.is_referenced()}


def needed(source: str) -> set[str]:
    """The names that a cell uses, without those that it has bound itself before it does."""
    found, own = set(), set()
    for statement in ast.parse(source).body:
        text = ast.unparse(statement)
        # `x = f(x)` needs x. A loop binds what it uses further down.
        found |= used(text) - own - (set() if isinstance(statement, ast.Assign | ast.AugAssign) else bound(text))
        own |= bound(text)
    return found


def _tables(source: str) -> list[symtable.SymbolTable]:
    found = [symtable.symtable(source, "<cell>", "exec")]
    for table in found:
        found += table.get_children()
    return found


def reaches_out(source: str) -> bool:
    """Whether a cell sets what others share: an attribute of a global name, or something by a call that sets it."""
    shared = used(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and _root(node) in shared:
            return True
        if isinstance(node, ast.Call) and SETS_SOMETHING.match(_last(node.func)):
            return True
    return False


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def touched(cells: list[str], names: set[str]) -> set[str]:
    """`names`, and what the cells bind that need any of them, or need what those bind, and so on."""
    found = set(names)
    while more := {name for cell in cells if needed(cell) & found for name in bound(cell)} - found:
        found |= more
    return found


def asked_for(exercise: Exercise) -> set[str]:
    """The names of the notebook that the probes of an exercise read."""
    found = set()
    for function in _reached(fact.test for fact in exercise.facts):
        if next(iter(inspect.signature(function).parameters), "") == "lab":
            found |= _read_from_lab(function)
    return found


def _read_from_lab(probe: FunctionType) -> set[str]:
    """X for each `lab.X` in a probe. Where `lab` stands alone (`getattr(lab, name)`), it may read everything."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(probe)))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_lab(node.value)]
    alone = sum(_is_lab(node) for node in ast.walk(tree)) > len(attributes)
    return {node.attr for node in attributes} | ({EVERYTHING} if alone else set())


def _is_lab(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "lab"


def _reached(functions: Iterator[FunctionType]) -> list[FunctionType]:
    """These functions and all that they name, in their own modules and in the modules that those name."""
    found = list(functions)
    for function in found:
        spaces = [function.__globals__, *(vars(m) for m in function.__globals__.values() if isinstance(m, ModuleType))]
        values = [space.get(name) for name in _names(function.__code__) for space in spaces]
        values += [cell.cell_contents for cell in function.__closure__ or ()]
        values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        ours = [v for v in values if isinstance(v, FunctionType) and v.__code__.co_filename.startswith(FACTS)]
        found += [v for v in dict.fromkeys(ours) if v not in found]
    return found


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*(_names(each) for each in inner))
