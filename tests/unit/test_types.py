"""The check of types: what it says of counts, and that it is never silent. `make types` runs it on the course."""

import tomllib
from collections import Counter

import pytest

import check_types
from tests.support.notebooks import ROOT

STATED = {"utils/grading": 3, "utils/grading/run": 1, "utils/grading/run/cell.py": 0, "tools": 2}


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("utils/grading/grade.py", "utils/grading"),
        ("utils/grading/run/kernel.py", "utils/grading/run"),
        ("utils/grading/run/cell.py", "utils/grading/run/cell.py"),
        ("utils/grading2/new.py", "utils/grading2"),
    ],
)
def test_a_file_belongs_to_the_longest_path_that_is_stated(path, room):
    assert check_types.room_of(path, STATED) == room


def test_more_errors_than_stated_are_told_and_so_are_fewer():
    found = Counter({"utils/grading": 4, "utils/new": 1, "tools": 1, "utils/grading/run": 1})
    more, fewer = check_types.compare(found, STATED)
    assert more.keys() == {"utils/grading", "utils/new"}
    assert more["utils/grading"] == "types: utils/grading has 4 errors, 3 are stated in tools/type_errors.toml"
    assert fewer == {"tools": "types: tools has 1 errors now, not 2: tools/check_types.py --write"}


@pytest.mark.parametrize(("tool", "said"), [("no_such_module", "No module named no_such_module"), ("this", "")])
def test_a_check_that_cannot_be_made_says_so_in_one_line(tool, said, monkeypatch):
    monkeypatch.setattr(check_types, "TOOL", tool)  # `python -m this` prints what is no report
    with pytest.raises(SystemExit) as ended:
        check_types.found_errors()
    assert str(ended.value).startswith(f"types: NOT CHECKED, {tool} does not run (")
    assert said in str(ended.value)
    assert "\n" not in str(ended.value)


def test_what_is_stated_is_there():
    stated = tomllib.loads(check_types.STATED.read_text())
    assert [room for room in stated if not (ROOT / room).exists()] == []
    assert list(stated) == sorted(stated)
