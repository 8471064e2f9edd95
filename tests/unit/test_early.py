"""What a probe imports of the course is loaded in a sealed kernel before the notebook runs: nothing of it is forged."""

import ast
import subprocess
import sys

from tests.support.notebooks import LABS, ROOT
from utils.exercises.facts import facts_path
from utils.grading.run.student_process import EARLY


def imported_by_probes():
    """The course's modules that the functions of labs' facts and of the probes' own tools import."""
    files = [ROOT / "utils" / "exercises" / "facts" / "probes.py"]
    files += [facts_path(lab, hidden=hidden) for lab in LABS for hidden in (False, True)]
    found = set()
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        probes = [f for f in functions if f.args.args and f.args.args[0].arg == "lab"]
        for function in probes if path.name != "probes.py" else functions:
            for node in ast.walk(function):
                # The probes' tools are loaded in a way of their own (_strict_probes), and before the notebook too.
                if isinstance(node, ast.ImportFrom) and node.module == "utils.exercises.facts.probes":
                    continue
                if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "utils":
                    found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_what_probes_import_is_there_before_the_notebook():
    code = f"""
import importlib, importlib.util, sys
for name in {EARLY!r}:
    importlib.import_module(name)
for name in {sorted(imported_by_probes())!r}:
    package = name.rpartition(".")[0]
    if name not in sys.modules and not hasattr(sys.modules.get(package), name.rpartition(".")[2]):
        print(name)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], "these belong into EARLY, in utils/grading/run/student_process.py"
    assert {"utils.observe.trace", "utils.kits.mailbox", "utils.kits.two_nodes"} < imported_by_probes()
