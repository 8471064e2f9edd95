"""The lessons as somebody has them who has done the tasks: `python tools/solved_lessons.py FOLDER` writes them.

Each cell that is marked as a task gets the working version from exercises/tasks/, as if it had been typed there. Of a
lesson there are its cells up to the one that imports `check`, and what lies from each task to its `yours_or_ours`,
because the rest is the same either way. It has to show that its tasks have passed. nbval runs these besides the
lessons themselves, in which the tasks are left open.
"""

import ast
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from utils.common.cell_tags import TASK  # noqa: E402
from utils.common.notebook_format import nbformat  # noqa: E402


def solved(path: Path, worked: str) -> nbformat.NotebookNode:
    """A lesson with its tasks done by `worked`, the source of their working versions."""
    notebook = nbformat.read(path, as_version=4)
    names, cells = [], [cell for cell in notebook.cells if cell.cell_type == "code"]
    starts = next((number for number, cell in enumerate(cells) if "= tasks(" in cell.source), 0)
    kept, end = cells[: starts + 1], 0
    for number in [number for number, cell in enumerate(cells) if TASK in cell.metadata.get("tags", [])]:
        asked = _defined(cells[number].source)
        names += asked
        cells[number].source = _with_imports(worked, asked)
        begin, end = max(number, end), _goes_on(cells, asked) + 1
        kept += cells[begin:end]
    passed = nbformat.v4.new_code_cell("\n".join(f"assert check({name!r}).passed, check({name!r})" for name in names))
    notebook.cells = [*kept, passed]
    return notebook


def _goes_on(cells: list[nbformat.NotebookNode], names: list[str]) -> int:
    """The last cell that goes on with one of these tasks, yours or the course's."""
    calls = [f"yours_or_ours({name!r})".replace("'", '"') for name in names]
    return max(number for number, cell in enumerate(cells) if any(call in cell.source for call in calls))


def _defined(source: str) -> list[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in ast.parse(source).body if isinstance(node, kinds)]


def _with_imports(source: str, names: list[str]) -> str:
    """The imports of a module, and those of its functions and classes that are called `names`."""
    parts = [
        ast.get_source_segment(source, node)
        for node in ast.parse(source).body
        if isinstance(node, (ast.Import, ast.ImportFrom)) or getattr(node, "name", None) in names
    ]
    return "\n".join(parts)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for script in (ROOT / "notebooks").glob("*.py"):  # lessons import or start what lies beside them
        shutil.copy(script, folder)
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        worked = ROOT / "utils" / "exercises" / "tasks" / f"lesson{path.name[:2]}" / "worked.py"
        if worked.exists():
            text = nbformat.writes(solved(path, worked.read_text(encoding="utf-8")))
            (folder / path.name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
