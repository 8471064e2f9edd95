"""Which files of this machine a sandbox keeps, and which it covers: by paths alone."""

from pathlib import Path

import pytest

from utils.grading.run.places import find_places

USR = "/usr"


@pytest.mark.parametrize(
    ("course", "prefixes", "ways"),
    [
        ("/srv/course", [USR, "/srv/course/.venv"], ()),
        ("/tmp/a b/course", [USR, "/tmp/a b/course/.venv"], ("/tmp/a b",)),
        ("/tmp/course", [USR, "/tmp/course/.venv"], ("/tmp/course",)),
        ("/dev/shm/course", [USR, "/srv/env"], ("/dev/shm/course",)),
        ("/home/student", [USR, "/home/student/.venv"], ()),
        ("/home/student/ü/course", [USR, "/home/student/ü/course/.venv"], ("/home/student/ü",)),
    ],
)
def test_python_and_utils_stay_and_the_rest_of_the_course_is_not_there(course, prefixes, ways):
    found = find_places(prefixes, [], Path(course))
    assert set(found.needed) == {prefixes[1], f"{course}/utils"}
    assert found.ways == ways
    assert found.covered == ()
    assert found.seen_through(Path(course, "solutions", "lab01", "hidden.py")) == ""
    assert found.seen_through(Path(course, "utils", "check.py")) == f"{course}/utils"
    assert found.conflict() == ""


@pytest.mark.parametrize("course", ["/usr/src/course", "/opt/python/share/course"])
def test_the_course_is_covered_where_it_lies_in_what_is_seen(course):
    found = find_places([USR, "/opt/python", f"{course}/.venv"], [], Path(course))
    if course.startswith(USR):
        assert found.covered == (course,)
        assert f"{course}/.venv" in found.needed
    else:  # then only those parts of that Python are seen that it runs from
        assert "/opt/python" not in found.needed
    assert found.seen_through(Path(course, "solutions")) == ""
    assert found.seen_through(Path(course, "utils")) == f"{course}/utils"


def test_a_python_in_somebodys_home_does_not_show_the_home(tmp_path, monkeypatch):
    for part in ("bin", "lib", "Desktop", "course"):
        (tmp_path / part).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    found = find_places([tmp_path], [], tmp_path / "course")
    assert set(found.needed) == {f"{tmp_path}/{part}" for part in ("bin", "lib", "course/utils")}


def test_a_linked_environment_is_there_under_both_names(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / ".venv").symlink_to(tmp_path / "env")
    found = find_places([USR, tmp_path / "course" / ".venv"], [], tmp_path / "course")
    assert {f"{tmp_path}/env", f"{tmp_path}/course/.venv"} < set(found.needed)


def test_other_files_below_what_is_seen_are_told():
    found = find_places([USR, "/opt/env"], [], Path("/srv/course"))
    assert found.seen_through(Path("/usr/local/share/class")) == USR
    assert found.seen_through(Path("/opt/env/class")) == "/opt/env"
    assert found.seen_through(Path("/tmp/class")) == ""


def test_a_python_around_a_folder_that_has_to_be_empty_is_a_conflict():
    assert "/home/student" in find_places(["/home/student"], [], Path("/srv/course")).conflict()
