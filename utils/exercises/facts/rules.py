"""What a probe may be and what it may read: asked when a lab is loaded.

A probe runs in another process, from its text alone: it imports what it needs inside itself, and uses no other name
from around it. Of what it holds it reads the attributes in MAY_READ, and no others: each of these has a way to be read
(looks.py) in which an object of the notebook cannot answer for itself. Three things are read without more ado: what
the probe has imported (`torch.float32`), what the notebook calls a name (`lab.make_layers`), and `super()`. And a
probe may read what it has itself put on its objects: `self.part0`, in a class that the probe has.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from utils.common.errors import Problem

MAY_READ = {
    # Read through PyTorch's own class; a tensor of a class that the notebook made is refused.
    "a tensor": {
        *("add_", "backward", "clone", "copy_", "cpu", "data", "detach", "device", "dtype", "float", "grad", "grad_fn"),
        *("mean", "normal_", "numel", "numpy", "register_post_accumulate_grad_hook", "relu", "requires_grad"),
        *("requires_grad_", "reshape", "shape", "split", "square", "sum", "tanh", "to", "uniform_"),
    },
    # Read through PyTorch's own class, where no class or object on the way shows other layers than those that compute.
    "a module": {
        *("buffers", "modules", "named_buffers", "named_parameters", "parameters", "state_dict"),
        *("double", "load_state_dict", "register_forward_hook", "register_forward_pre_hook", "requires_grad_", "to"),
        *("train", "zero_grad"),
    },
    # What a module keeps: read from where nn.Module keeps it.
    "a module's own": {
        *("_forward_hooks", "_forward_pre_hooks", "bias", "running_mean", "running_var", "training", "weight"),
    },
    # Read through torch.optim's class, of an optimizer of the notebook's own class too.
    "an optimizer": {"param_groups", "register_step_post_hook", "step"},
    # Read through what is written in C++, of a node of the notebook's own autograd.Function too.
    "a node of the backward graph": {"name", "next_functions"},
    # Read through Python's own class: of a subclass, what is in it and not what it says.
    "a dict, a list, a set or text": {
        *("add", "append", "clear", "count", "get", "items", "join", "pop", "startswith"),
    },
    "an array": {"copy", "ravel"},
    "a class": {"__name__"},
    # What the course or PyTorch has made for the probe, and no submission had.
    "a generator of random numbers": {"manual_seed"},
    "a module of torch for a kind of device": {"max_memory_allocated", "memory_allocated", "reset_peak_memory_stats"},
    "a record of what devices did": {
        *("busy", "busy_times", "bytes", "device", "end", "events", "flops", "is_kernel", "kind", "launched"),
        *("module", "moved", "phase", "source", "span"),
    },
}
MAY_READ = {what: frozenset(names) for what, names in MAY_READ.items()}
READABLE = frozenset().union(*MAY_READ.values())
# These would read any attribute of anything.
READERS = {"getattr", "vars"}


class ProbeNames:
    """What a probe, or a module of probes, has imported and what it puts on its own objects."""

    def __init__(self, tree: ast.AST):
        nodes = list(ast.walk(tree))
        imports = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
        self.imported = {alias.asname or alias.name.split(".")[0] for alias in imports}
        self.given = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        self.given -= READABLE

    def free(self, node: ast.expr) -> bool:
        """Whether all attributes of `node` are read as they are: it is imported, or the notebook's names."""
        if isinstance(node, ast.Attribute):
            return self._is_imported(node)
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "super"
        return isinstance(node, ast.Name) and (node.id == "lab" or node.id in self.imported)

    def _is_imported(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imported


def check_lab(module, path: Path) -> None:
    """Raise Problem, which names the line, where a probe of a lab's module is not what a probe may be."""
    source = path.read_text(encoding="utf-8")
    where = f"{path.parent.name}/{path.name}"
    for problem in _problems(source):
        raise Problem(f"{where}: {problem}")
    for line, name in _asked(source):
        function = module
        for part in name.split("."):
            function = getattr(function, part, None)
        code = getattr(function, "__code__", None)
        if code is None or code.co_varnames[: code.co_argcount][:1] != ("lab",):
            raise Problem(f"{where}: line {line}: student.run is given {name}. A probe is a function of (lab, ...).")


def check_probes(path: Path) -> None:
    """The same for the functions that probes import, which may use what their own module imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in _functions(tree):
        for problem in _reads(function, ProbeNames(tree)):
            raise Problem(f"{path.parent.name}/{path.name}: {problem}")


@cache
def _problems(source: str) -> list[str]:
    tables = {table.get_name(): table for table in symtable.symtable(source, "<lab>", "exec").get_children()}
    probes = [f for f in _functions(ast.parse(source)) if f.args.args and f.args.args[0].arg == "lab"]
    return [p for probe in probes for p in (*_uses(probe, tables[probe.name]), *_reads(probe, ProbeNames(probe)))]


@cache
def _asked(source: str) -> list[tuple[int, str]]:
    """(line, what) of each probe that a lab's module gives to student.run."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    return [(call.lineno, ast.unparse(call.args[0])) for call in calls if ast.unparse(call.func) == "student.run"]


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _uses(probe: ast.FunctionDef, table: symtable.SymbolTable) -> Iterator[str]:
    """What a probe needs from around it."""
    around = [probe.args, *probe.decorator_list, *([probe.returns] if probe.returns else [])]
    names = {node.id for part in around for node in ast.walk(part) if isinstance(node, ast.Name)}
    for name in sorted((names | set(_globals_of(table))) - set(vars(builtins)) - {probe.name}):
        yield f"probe {probe.name}, line {probe.lineno}: it uses {name}, which is outside it. Import or make it inside."


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global())
    for child in table.get_children():
        yield from _globals_of(child)


def _reads(probe: ast.FunctionDef, names: ProbeNames) -> Iterator[str]:
    """What a probe reads that it may not."""
    calls = [node for node in ast.walk(probe) if isinstance(node, ast.Call)]
    for node in ast.walk(probe):
        told = f"probe {probe.name}, line {getattr(node, 'lineno', 0)}: it"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not names.free(node.value):
            if node.attr not in READABLE | names.given:
                yield f"{told} reads .{node.attr}, which is not in MAY_READ (utils/exercises/facts/rules.py)."
        elif isinstance(node, ast.Name) and node.id in READERS and not _reads_a_free_one(node, calls, names):
            yield f"{told} has {node.id}, which reads whatever it is told: see utils/exercises/facts/rules.py."


def _reads_a_free_one(reader: ast.Name, calls: list[ast.Call], names: ProbeNames) -> bool:
    return any(call.func is reader and call.args and names.free(call.args[0]) for call in calls)
