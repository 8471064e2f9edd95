"""Buttons that open the course elsewhere: there where a repository is named, gone without a trace where none is."""

import shutil

import nbformat
import pytest

from tests.support.notebooks import ROOT, run_here
from utils.common.errors import Problem
from utils.course import badges

PAGES = (
    "README.md",
    "notebooks/00_start_here.ipynb",
    "notebooks/01_split_a_model.ipynb",
    "notebooks/two_real_gpus.ipynb",
)


@pytest.fixture
def course(tmp_path):
    for name in (*PAGES, "pyproject.toml", "tools/first_cell.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def name_repository(root, name):
    text = (root / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(text.replace('repository = ""', f'repository = "{name}"'))


def test_no_repository_is_named_and_no_page_has_buttons(course):
    assert badges.repository() == ""
    assert badges.put(course) == []


def test_the_page_for_rented_machines_always_gets_the_course_by_its_first_code_cell(course):
    notebook = nbformat.read(course / "notebooks" / "two_real_gpus.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == (course / "tools" / "first_cell.py").read_text().strip()


def test_buttons_come_with_a_repository_and_go_without(course):
    before = {name: (course / name).read_bytes() for name in PAGES}
    plain = (course / "pyproject.toml").read_text()
    name_repository(course, "someone/split")
    assert badges.put(course) == [course / name for name in PAGES]
    assert badges.put(course) == []
    for name in PAGES:
        text = (course / name).read_text()
        notebook = name if name.endswith(".ipynb") else "notebooks/00_start_here.ipynb"
        assert f"https://colab.research.google.com/github/someone/split/blob/main/{notebook}" in text
        assert f"https://kaggle.com/kernels/welcome?src=https://github.com/someone/split/blob/main/{notebook}" in text
        assert f"https://mybinder.org/v2/gh/someone/split/main?urlpath=lab/tree/{notebook}" in text
    (course / "pyproject.toml").write_text(plain)
    assert badges.put(course) == [course / name for name in PAGES]
    assert {name: (course / name).read_bytes() for name in PAGES} == before


def test_a_lesson_gets_the_course_by_its_first_code_cell(course, monkeypatch, capsys):
    name_repository(course, "someone/split")
    badges.put(course)
    notebook = nbformat.read(course / "notebooks" / "01_split_a_model.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].source.startswith("# 01")
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert 'REPOSITORY = "someone/split"' in first.source
    monkeypatch.chdir(ROOT / "notebooks")
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    assert "errors" not in run_here(nbformat.v4.new_notebook(cells=[first]))
    assert capsys.readouterr().out == ""  # at home it says nothing


@pytest.mark.parametrize("name", ["https://github.com/someone/split", "split", "some one/split"])
def test_what_is_no_repository_is_told_in_one_line(course, name):
    name_repository(course, name)
    with pytest.raises(Problem, match="write owner/name of GitHub, and not"):
        badges.put(course)
