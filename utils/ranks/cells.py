"""%%ranks 4: a cell that is run on each of 4 ranks, as a program is."""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType

import cloudpickle

HOW = "%%ranks 4, or with arguments of simgpu.enable: %%ranks 4 gpu='H100', nodes=2"


def register_ranks_magic(ranks: Callable) -> None:
    """Make %%ranks known, if this is a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return

    def run_cell_on_ranks(line: str, cell: str) -> None:
        """Run the cell on each of so many ranks. It begins with copies of what it uses of the notebook."""
        name = shell.compile.cache(cell)
        code = compile(cell, name, "exec")
        group = ranks_of(ranks, line, shell.user_ns)
        theirs = {key: value for key, value in shell.user_ns.items() if key not in shell.user_ns_hidden}
        group.run(run_cell, cell, name, what_it_uses(code, theirs))

    shell.register_magic_function(run_cell_on_ranks, "cell", "ranks")


def ranks_of(ranks: Callable, line: str, namespace: dict):
    """The ranks that the first line of a cell asks for."""
    count, _, arguments = line.strip().partition(" ")
    try:
        return eval(f"ranks({count}, {arguments})", namespace | {"ranks": ranks})
    except (SyntaxError, NameError, TypeError) as error:
        raise ValueError(f"%%ranks {line} cannot be read ({error}): write {HOW}") from None


def what_it_uses(code: CodeType, namespace: dict) -> dict:
    """What a cell reads of the notebook. What it makes itself is left out where it could not be sent."""
    used = {name: namespace[name] for name in names(code, "LOAD_") if name in namespace}
    made = names(code, "STORE_")
    return {name: value for name, value in used.items() if name not in made or can_be_sent(value)}


def names(code: CodeType, operation: str) -> set[str]:
    """The global names that code loads or stores, with those of the functions in it."""
    kinds = (f"{operation}NAME", f"{operation}GLOBAL")
    return {step.argval for part in _parts(code) for step in dis.get_instructions(part) if step.opname in kinds}


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def can_be_sent(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # whatever its own code raises
        return False
    return True


def run_cell(source: str, name: str, given: dict) -> None:
    """On a rank: be the program that the cell is, and show the value of its last line as a notebook does."""
    namespace = vars(sys.modules["__main__"])
    namespace.update(given)
    body = ast.parse(source, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    exec(compile(ast.Module(body, []), name, "exec"), namespace)
    if isinstance(last, ast.Expr):
        sys.displayhook(eval(compile(ast.Expression(last.value), name, "eval"), namespace))
