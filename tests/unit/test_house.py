"""Rules of the house that no linter knows: which way the arrows point, and where PyTorch's private names are."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

from tests.support.notebooks import ROOT

NOT_LOADED = {"tests", "benchmarks"}  # what tests and measures simgpu; no learner's kernel loads it
CODE = sorted(p for p in (ROOT / "utils").rglob("*.py") if not NOT_LOADED & {*p.relative_to(ROOT).parts})
SIMGPU = ROOT / "utils" / "simgpu" / "src" / "simgpu"
PRIVATE_NAMES_LIVE_IN = SIMGPU / "torch_private"


def dotted(node) -> str:
    """`torch.utils.data` for the expression that says so, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := dotted(node.value)):
        return f"{left}.{node.attr}"
    return ""


def private_names(path):
    """Private names of PyTorch in a file. Operators (`aten._to_copy`) are public whatever they are called."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Attribute):
            names = [dotted(node)]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "torch" and any(p.startswith("_") and not p.startswith("__") for p in parts):
                yield name


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


ELSEWHERE = [path for path in CODE if path.parent != PRIVATE_NAMES_LIVE_IN]


@pytest.mark.parametrize("path", ELSEWHERE, ids=lambda p: str(p.relative_to(ROOT)))
def test_private_names_of_pytorch_live_in_one_folder(path):
    assert not sorted(set(private_names(path)))


def test_private_names_are_found_where_they_live():
    # What two modules there use, they reach by names of modules in text: `_root_copy_hook` of DDP.
    by_name_only = {"__init__", "checkpoint", "context_parallel", "data_parallel"}
    found = {path.stem for path in PRIVATE_NAMES_LIVE_IN.glob("*.py") if any(private_names(path))}
    assert found | by_name_only == {path.stem for path in PRIVATE_NAMES_LIVE_IN.glob("*.py")}


def test_simgpu_imports_nothing_else_from_the_course():
    for path in SIMGPU.rglob("*.py"):
        above = "." * (len(path.relative_to(SIMGPU).parts) + 1)  # so many dots lead out of the package
        assert not [name for name in imported(path) if name.startswith(("utils", above))], path


def imported_within_simgpu(path):
    """The modules of simgpu that one of them imports, by path; not what only a type checker imports."""
    tree = ast.parse(path.read_text())
    for_types = [node for node in ast.walk(tree) if isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING"]
    left_out = {id(inner) for node in for_types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in left_out:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for place in (base, *(base / alias.name for alias in node.names)):
                yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())


def test_modules_of_simgpu_import_one_way():
    imports = {}
    for path in SIMGPU.rglob("*.py"):
        packages = {parent / "__init__.py" for parent in path.parents}  # `from . import moves` is not about those
        imports[path] = {*imported_within_simgpu(path)} - packages
    TopologicalSorter(imports).prepare()  # raises CycleError


# The grader watches the machine itself, so that no code between the two can lie to it.
WATCHES_THE_INSIDE = ("utils/grading/run/observer.py", "utils/grading/run/student_process.py")
FACE = ("simgpu", "simgpu.faults", "simgpu.profiles", "simgpu.threads", "simgpu.torch_private")


def test_others_use_what_simgpu_shows():
    inside = {
        str(path.relative_to(ROOT)): name
        for path in CODE
        for name in imported(path)
        if name.startswith("simgpu")
        and name not in FACE
        and "simgpu" not in path.parts
        and path.name != "facts.py"  # a fact looks inside, too
    }
    assert inside.keys() <= set(WATCHES_THE_INSIDE), inside


def test_nothing_that_a_lesson_imports_needs_the_grader():
    observe = [f"utils.observe.{name}" for name in ("devices", "trace", "timing", "monitor", "plots")]
    names = ["simgpu", *observe, "utils.schedules.of_layers", "utils.widgets", "utils.exercises.check", "utils.ranks"]
    code = f"import sys, {', '.join(names)}\n"
    code += "print([m for m in sys.modules if m.startswith('utils.grading')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_importing_utils_imports_no_torch():
    code = "import sys, utils; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


# From the top: a room imports from floors below its own. docs/architecture.md draws it.
FLOORS = (
    ("course",),
    ("hub",),
    ("grading", "widgets", "kits"),
    ("planner",),
    ("exercises", "schedules"),
    ("observe", "models", "ranks"),
    ("simgpu", "common", "processes"),
)


def room_of(module: str) -> str:
    first, *others = module.split(".")
    return first if first == "simgpu" else others[0] if first == "utils" and others else ""


def names_imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "utils":
            yield from (f"utils.{alias.name}" for alias in node.names)
    yield from imported(path)


def test_rooms_import_from_floors_below():
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    rooms = {path.name for path in (ROOT / "utils").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == floor.keys()
    assert [path.name for path in (ROOT / "utils").glob("*.py")] == ["__init__.py"]
    up = [
        (str(path.relative_to(ROOT)), name)
        for path in CODE
        if (here := path.relative_to(ROOT / "utils").parts[0]) in floor
        for name in names_imported(path)
        if (there := room_of(name)) in floor and there != here and floor[there] <= floor[here]
    ]
    assert not up


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "utils" / "simgpu").glob("*.md")]
# What the reader is to make, in the steps of CONTRIBUTING.md.
TO_BE_MADE = {"solutions/lab01/answers/ex6.py"}


def test_pages_name_files_that_exist():
    named = {
        (page.name, path)
        for page in PAGES
        for path in re.findall(
            r"`((?:docs|labs|notebooks|solutions|tests|tools|utils)/[\w./]+\.\w+)`", page.read_text()
        )
    }
    assert {path for _, path in named} > {"docs/sources.md"}
    assert not [(page, path) for page, path in named if path not in TO_BE_MADE and not (ROOT / path).exists()]


# A reader who searches for a name finds one definition. What stands here is meant twice:
DEFINED_TWICE = {
    "main": "a program's entry",
    "write": "what a grade export has to offer",
    "wrote": "what a grade export has to offer",
    "gather": "simgpu's is torch.cuda.comm's, the trace's joins what ranks have noted",
    "describe": "simgpu says what it simulates, the course what a device is, simulated or not",
}
# Still to be renamed within simgpu.
DEFINED_TWICE |= dict.fromkeys(("Estimate", "Event", "Kernel", "Layout", "Memory", "Plan"), "simgpu's own is another")
DEFINED_TWICE |= dict.fromkeys(("forget", "named", "note_what_runs"), "twice within simgpu")
COMMANDS = ROOT / "utils" / "course" / "cli.py"  # a function there is called as its command is typed
TASKS = ROOT / "utils" / "exercises" / "tasks"  # each lesson's page is read by itself, as the labs' pages are


def public_definitions(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node.name


def test_no_public_name_is_defined_in_two_files():
    places: dict[str, list[str]] = {}
    for path in CODE:
        if path != COMMANDS and TASKS not in path.parents:
            for name in set(public_definitions(path)):
                places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in DEFINED_TWICE}
    assert not twice
