"""The glossary: sorted, and each word stands in the section of the lesson that it links to."""

import re

import nbformat
import pytest

from tests.support.notebooks import ROOT

PAGE = ROOT / "docs" / "glossary.md"
LINE = re.compile(
    r"\* \*\*(?P<word>[^*]+)\*\*(?: \(`?(?P<alias>[^)`]+)`?\))?: (?P<text>.+) \[[^\]]+\]"
    r"\(\.\./(?P<path>notebooks/[^#)]+)#(?P<anchor>[^)]+)\)"
)
ENTRIES = [LINE.fullmatch(line) for line in PAGE.read_text().splitlines() if line.startswith("* ")]


def sections(path) -> dict[str, str]:
    """Each section of a notebook, its heading with it, by the anchor that Jupyter gives the heading."""
    found, anchor = {}, None
    for cell in nbformat.read(path, 4).cells:
        for line in cell.source.splitlines():
            if cell.cell_type == "markdown" and line.startswith("#"):
                anchor = line.lstrip("#").strip().replace(" ", "-")
            if anchor:
                found[anchor] = found.get(anchor, "") + line + "\n"
    return found


def test_every_line_is_a_word_with_a_link_and_they_are_sorted():
    assert None not in ENTRIES
    assert len(ENTRIES) > 50
    words = [entry["word"] for entry in ENTRIES]
    assert words == sorted(set(words), key=str.casefold)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry and entry["word"])
def test_the_place_that_a_word_links_to_has_it(entry):
    there = sections(ROOT / entry["path"])
    assert entry["anchor"] in there
    section = there[entry["anchor"]].lower()
    assert any(word.lower() in section for word in (entry["word"], entry["alias"]) if word)
