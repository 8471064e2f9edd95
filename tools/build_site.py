"""The course as static pages: `python tools/build_site.py` writes build/site/, to be put on any web server.

    python tools/build_site.py             lessons are run first, so that folded results are there (minutes, kept)
    python tools/build_site.py --as-stored  the outputs that the notebooks have; what is predicted has none
    python tools/build_site.py --as-stored --into FOLDER

What is for instructors (solutions, hidden tests, misconceptions) is not on it. A link to what is not on it leads to the
repository where one is named (pyproject.toml, [tool.course]), and is plain text otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

from moving_picture import svg
from utils.common.cell_tags import PREDICTED
from utils.common.files import python_path
from utils.common.notebook_format import nbformat
from utils.common.settings import WIDGETS
from utils.course.badges import BRANCH, repository
from utils.widgets.game.page import page

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "build" / "site-runs"
DOCS = ("one_page", "glossary", "schedules", "planner", "simgpu", "times", "environments")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
SLUG = re.compile(r"[^\w\- ]")
# 1.5 MB of icons drawn by a script, which the theme's style sheet draws, too, by a font.
ICONS = re.compile(r'<script [^>]*src="[^"]*/fontawesome\.js[^>]*></script>')
SEARCH = re.compile(r'<script src="[^"]*(searchtools|language_data|searchindex)\.js[^>]*></script>')
MISNAMED = ' aria-label="Toggle hidden content"'  # of a fold that has other words, which are its name
WAITED_FOR = re.compile(r'<script (?=src="(?![^"]*documentation_options))')  # lines of the page read those options


def main(as_stored: bool, site: Path) -> None:
    pages = site.with_name(f"{site.name}-pages")
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    prepare(as_stored, pages)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(pages), str(site)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": python_path()}, check=False)
    if done.returncode:
        sys.exit("build_site: Sphinx has refused a page: its words are above")
    for path in site.rglob("*.html"):
        path.write_text(lighter(path.read_text(encoding="utf-8"), path.name == "search.html"), encoding="utf-8")
    (site / "_static" / "scripts" / "fontawesome.js").unlink()
    (site / "game.html").write_text(page(), encoding="utf-8")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{site}: {len(list(site.rglob('*.html')))} pages, {size / 1e6:.0f} MB. Open {site / 'index.html'}")


def prepare(as_stored: bool, pages: Path) -> None:
    """The pages, as Sphinx finds them: with links that lead somewhere, and pictures that have words."""
    shutil.copytree(ROOT / "docs" / "site", pages)
    for folder in ("notebooks/figures", "docs/images"):
        shutil.copytree(ROOT / folder, pages / folder)
    index = pages / "index.md"
    got = f"git clone https://github.com/{repository()}.git course" if repository() else "unzip course.zip"
    text = index.read_text(encoding="utf-8").replace("GET THE COURSE", f"{got} && cd course")
    index.write_text(text.replace("<!-- the moving picture -->", svg()), encoding="utf-8")
    sources = [ROOT / "docs" / f"{name}.md" for name in DOCS]
    sources += [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "labs").glob("lab*/*.ipynb")]
    on_site = {path.relative_to(ROOT) for path in sources}
    for path in sources:
        name = path.relative_to(ROOT)
        target = pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(linked(path.read_text(encoding="utf-8"), name, on_site), encoding="utf-8")
            continue
        notebook = nbformat.read(path if as_stored or "labs" in name.parts else run(path), as_version=4)
        for cell in notebook.cells:
            dress(cell, name, on_site)
        nbformat.write(notebook, target)


def dress(cell, name: Path, on_site: set[Path]) -> None:
    """Make a cell fit for the site."""
    if cell.cell_type == "markdown":
        cell.source = linked(cell.source, name, on_site)
        return
    cell.metadata.pop("jupyter", None)
    if PREDICTED in cell.metadata.get("tags", []) and cell.outputs:
        cell.metadata.tags.append("hide-output")
    for output in cell.outputs:
        data = output.get("data", {})
        if {"image/png", "image/svg+xml"} & set(data):
            words = " ".join("".join(data.get("text/plain", "")).split()) or "A picture of this cell's result"
            cell.metadata["mystnb"] = {"image": {"alt": words.replace('"', "'")}}
        elif "text/html" in data and "<script" in data["text/html"]:
            del data["text/html"]  # a page of its own: its text stands beside it
        data.pop("application/vnd.jupyter.widget-view+json", None)


def linked(text: str, name: Path, on_site: set[Path]) -> str:
    """Markdown whose links lead to pages of the site, to the repository, or nowhere."""

    def follow(found: re.Match) -> str:
        picture, words, address = found.groups()
        place, _, part = address.partition("#")
        if re.match(r"[a-z]+:", address):
            return found[0]
        if not place:
            return f"{picture}[{words}](#{slug(part)})"
        target = Path(os.path.normpath(name.parent / unquote(place)))
        if picture or target in on_site:
            return f"{picture}[{words}]({place}{'#' + slug(part) if part else ''})"
        return f"[{words}](https://github.com/{repository()}/blob/{BRANCH}/{target})" if repository() else words

    return LINK.sub(follow, text)


def lighter(html: str, searches: bool) -> str:
    """A page that shows its text before its scripts have come, and asks for none that it does not use."""
    html = ICONS.sub("", html).replace(MISNAMED, "").replace("<img ", '<img loading="lazy" ')
    return WAITED_FOR.sub("<script defer ", html if searches else SEARCH.sub("", html))


def slug(part: str) -> str:
    """A heading's anchor as the site has it, from one as Jupyter has it."""
    return SLUG.sub("", unquote(part).lower())


def run(path: Path) -> Path:
    """The lesson with all its outputs: run once for each state of the course's code, and kept."""
    from nbclient import NotebookClient

    state = hashlib.sha256(path.read_bytes())
    for source in sorted((ROOT / "utils").rglob("*.py")):
        state.update(source.read_bytes())
    kept = RUNS / f"{path.stem}-{state.hexdigest()[:16]}.ipynb"
    if not kept.exists():
        print(f"running {path.name}", flush=True)
        notebook = nbformat.read(path, as_version=4)
        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}}
        )
        client.execute(env={**os.environ, WIDGETS: "0"})
        RUNS.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, kept)
    return kept


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="The course as static pages.")
    asked.add_argument("--as-stored", action="store_true", help="run nothing: the outputs that the notebooks have")
    asked.add_argument("--into", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    given = asked.parse_args()
    main(given.as_stored, given.into)
