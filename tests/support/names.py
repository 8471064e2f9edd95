"""What an answer can change: the names that cells bind and use. Found by reading code."""

from __future__ import annotations

import ast
import re
import symtable

# Calls that set something outside of the notebook, as torch.set_default_device or a hook for all modules. The state of
# random numbers is none of it, because a probe sets its own, nor is what sets something in a given model: a state dict,
# FSDP's set_requires_all_reduce.
SETS_SOMETHING = re.compile(r"set_(?!(rng_|model_)?state(_dict)?$|requires_)|register_module_")


def bound(source: str) -> set[str]:
    """The names of the notebook that a cell binds."""
    top, *inner = _tables(source)
    own = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    return own | {s.get_name() for t in inner for s in t.get_symbols() if s.is_declared_global() and s.is_assigned()}


def imported(*sources: str) -> set[str]:
    """The modules that these sources import, in their functions too."""
    found: set[str] = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module}
    return found


def changed(source: str, other: str) -> set[str]:
    """The names that either cell binds in a statement that the other has not, and what needs them in these cells."""
    own, others = ({ast.unparse(each) for each in ast.parse(cell).body} for cell in (source, other))
    return touched([*own, *others], set().union(*(bound(each) for each in own ^ others)))


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
        if isinstance(node, ast.Call) and _last(node.func) == "setattr" and _root(node.args[0]) in {*shared, ""}:
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
