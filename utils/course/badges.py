"""Buttons that open a page of the course on Colab, Kaggle or Binder, where pyproject.toml names a repository.

They stand below the title of the README and of each lesson. A lesson that is opened there alone gets the course by its
first code cell: tools/first_cell.py with the repository filled in. Without a repository all of it is taken out, but for
that cell in the page that is meant for rented machines.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT, write_whole
from utils.common.notebook_format import nbformat

BEGIN, END = "<!-- buttons: course badges -->", "<!-- end of the buttons -->"
FIRST_CELL = "first-cell"  # the id of the cell that gets the course
BRANCH = "main"
FIRST_PAGE = "notebooks/00_start_here.ipynb"
ALWAYS = ("two_real_gpus.ipynb",)  # a page for rented machines: there is no other way to get the course there


def repository(root: Path = ROOT) -> str:
    """owner/name on GitHub, or nothing. Raises Problem for anything else."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    name = settings.get("tool", {}).get("course", {}).get("repository", "")
    if name and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise Problem(f"pyproject.toml, [tool.course] repository: write owner/name of GitHub, and not {name!r}")
    return name


def links(name: str, path: str) -> dict[str, tuple[str, str]]:
    """The picture and the address of each button for a notebook of a repository."""
    page = f"github.com/{name}/blob/{BRANCH}/{path}"
    return {
        "Open in Colab": (
            "https://colab.research.google.com/assets/colab-badge.svg",
            f"https://colab.research.google.com/{page.replace('github.com', 'github', 1)}",
        ),
        "Open in Kaggle": (
            "https://kaggle.com/static/images/open-in-kaggle.svg",
            f"https://kaggle.com/kernels/welcome?src=https://{page}",
        ),
        "Open on Binder": (
            "https://mybinder.org/badge_logo.svg",
            f"https://mybinder.org/v2/gh/{name}/{BRANCH}?urlpath=lab/tree/{path}",
        ),
    }


def put(root: Path = ROOT) -> list[Path]:
    """Bring the README and all lessons into line with the setting. Returns what was changed."""
    name = repository(root)
    pages = [root / "README.md", *sorted((root / "notebooks").glob("*.ipynb"))]
    changed = []
    for page in pages:
        before = page.read_text(encoding="utf-8")
        after = _readme(before, name) if page.suffix == ".md" else _lesson(before, name, page.name, root)
        if after != before:
            write_whole(page, after)
            changed.append(page)
    return changed


def _readme(text: str, name: str) -> str:
    return _with_buttons(text, name, FIRST_PAGE)


def _lesson(text: str, name: str, file: str, root: Path) -> str:
    notebook = nbformat.reads(text, as_version=4)
    there = [cell for cell in notebook.cells if cell.id == FIRST_CELL]
    notebook.cells = [cell for cell in notebook.cells if cell.id != FIRST_CELL]
    title = notebook.cells[0]
    title.source = _with_buttons(title.source, name, f"notebooks/{file}")
    if name or file in ALWAYS:
        [cell] = there or [nbformat.v4.new_code_cell(id=FIRST_CELL)]  # one that has been run keeps its number
        cell.source = (root / "tools" / "first_cell.py").read_text(encoding="utf-8").strip()
        cell.source = cell.source.replace('REPOSITORY = ""', f'REPOSITORY = "{name}"')
        cell.metadata = nbformat.from_dict({"jupyter": {"source_hidden": True}})
        notebook.cells.insert(1, cell)
    return nbformat.writes(notebook) + "\n"


def _with_buttons(text: str, name: str, path: str) -> str:
    """Text with the buttons below its first line, or without them where there is no repository."""
    text = re.sub(rf"\n\n{BEGIN}.*?{END}", "", text, flags=re.DOTALL)
    if not name:
        return text
    buttons = " ".join(f"[![{word}]({picture})]({address})" for word, (picture, address) in links(name, path).items())
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{BEGIN}\n{buttons}\n{END}\n{rest}"
