"""docs/vocabulary.md, held: the words that it replaces are gone from all that a learner reads."""

import ast
import re

import nbformat
import pytest

from tests.support.notebooks import ROOT

PAGE = (ROOT / "docs" / "vocabulary.md").read_text()
NOTEBOOKS = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/lab*/lab*.ipynb")])
FACTS = sorted([*ROOT.glob("labs/lab*/facts.py"), *ROOT.glob("utils/exercises/tasks/lesson*/facts.py")])
EXPLAINED = sorted(ROOT.glob("utils/widgets/explained/*.md"))


def words_that_are_gone() -> list[str]:
    part = PAGE.split("## Words that are gone\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|")[0] for line in part.splitlines() if line.startswith("|")]
    return [word.strip() for row in rows[2:] for word in row.split(",")]


def read(path) -> str:
    """What a learner reads of a file: the text cells of a notebook, a page, or the texts in facts."""
    if path.suffix == ".ipynb":
        return "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")
    if path.suffix == ".md":
        return path.read_text()
    texts = []
    for node in ast.walk(ast.parse(path.read_text())):
        first = node.body[0] if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value.value = ""  # a docstring: learners are not told what it says
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return "\n".join(texts)


def test_the_table_is_read():
    assert {"nobody", "gathering", "lets go of", "anew"} <= set(words_that_are_gone())


@pytest.mark.parametrize("path", [*NOTEBOOKS, *EXPLAINED, *FACTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_words_that_are_gone_are_gone(path):
    gone = "|".join(map(re.escape, words_that_are_gone()))
    assert not re.findall(rf"[^.\n]*\b(?:{gone})\b[^.\n]*", read(path), re.IGNORECASE)
