"""Names as platforms write them: one form for the whole export, and nothing that a student writes changes it."""

import os
import zipfile
from pathlib import Path

import pytest

from utils.grading.handed_in.platforms import read_names
from utils.grading.run.submissions import handed_in

NAME = "lab01_split_a_model.ipynb"


def whose(*names, known=()):
    """The platform, and (student, id, whether there is a doubt) for each name."""
    export = read_names([Path(name) for name in names], "lab01", known)
    return export.platform, [(one.student, one.id, bool(one.doubts)) for some in export.whose.values() for one in some]


@pytest.mark.parametrize(
    ("names", "platform", "found"),
    [
        (["Ann Lee_12_assignsubmission_file"], "Moodle", [("Ann Lee", "12", False)]),
        (["Ann Lee_12_assignsubmission_file_"], "Moodle", [("Ann Lee", "12", False)]),
        ([f"Ann Lee_12_assignsubmission_file_{NAME}"], "Moodle", [("Ann Lee", "12", False)]),
        (["Ann Lee_12_assignsubmission_onlinetext"], "Moodle", [("Ann Lee", "12", False)]),
        (["Default group_assignsubmission_file"], "Moodle", [("Default group", "", False)]),
        (["Lee_12_assignsubmission_file_9_assignsubmission_file_x"], "Moodle", [("Lee", "12", False)]),
        ([f"leeann_42_99_{NAME}"], "Canvas", [("leeann", "42", False)]),
        ([f"o_neilann_LATE_42_99_{NAME}"], "Canvas", [("o_neilann", "42", False)]),
        (["leeann_late_42_link.html"], "Canvas", [("leeann", "42", False)]),
        (["leeann_42_99_a\nb.ipynb"], "Canvas", [("leeann", "42", False)]),
        ([f"_42_99_{NAME}"], "Canvas", [("42", "42", False)]),
        ([f"anon_4a2_99_{NAME}", "LATE_anon_b7_text.html"], "Canvas, anonymous", 2),
        ([f"anon_42_99_{NAME}", f"leeann_43_98_{NAME}"], "Canvas", [("anon", "42", False), ("leeann", "43", False)]),
        # Not a platform's: capitals, a date, a number of two people, something beside.
        ([f"Lee_42_99_{NAME}"], "a folder", [(f"Lee_42_99_{NAME[:-6]}", "", False)]),
        (["ann_2026_11_lab01.ipynb", "bob_2026_11_lab01.ipynb"], "a folder", 2),
        (["Ann_12_assignsubmission_file", "Bob_12_assignsubmission_file"], "a folder", 2),
        ([f"leeann_42_99_{NAME}", "Ann Lee_12_assignsubmission_file"], "a folder", 2),
        ([f"x_42_assignsubmission_file_43_99_{NAME}"], "a folder", 1),
    ],
)
def test_an_export_is_one_platforms_or_none(names, platform, found):
    got = whose(*names)
    assert got[0] == platform
    # Where no form is believed, what looks like one is a doubt, and gives no number.
    assert (
        got[1] == found
        if isinstance(found, list)
        else [(one[1] in ("", one[0]), one[2]) for one in got[1]] == [(True, True)] * found
    )


CANVAS = [{"Student": "Lee, Ann", "ID": "42"}, {"Student": "Ng, Bo", "ID": "43"}]
WORKSHEET = [{"Identifier": "Participant 42", "Full name": "Vic Tim"}]


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        (f"leeann_42_99_{NAME}", CANVAS, ("leeann", "42", False)),
        (f"annie_42_99_{NAME}", CANVAS, ("annie", "42", False)),
        ("leeann_42_99_1_lab01.ipynb", CANVAS, ("leeann", "42", False)),
        ("leeann_42_99_1_lab01.ipynb", [], ("leeann_42_99_1_lab01.ipynb", "", True)),
        ("ngbo_43_9_x_42_8_lab01.ipynb", CANVAS, ("ngbo_43_9_x_42_8_lab01.ipynb", "", True)),
        (f"rockets_42_99_{NAME}", CANVAS, ("rockets", "", True)),
        (f"leeann_42_99_{NAME}", WORKSHEET, ("leeann", "", False)),
        (f"Vic Tim_42_assignsubmission_file_{NAME}", WORKSHEET, ("Vic Tim", "42", False)),
        (f"V. Tim_42_assignsubmission_file_{NAME}", WORKSHEET, ("V. Tim", "42", False)),
        (f"Rockets_42_assignsubmission_file_{NAME}", WORKSHEET, ("Rockets", "", True)),
        (f"Bo Ng_42_assignsubmission_file_{NAME}", CANVAS, ("Bo Ng", "", False)),
    ],
)
def test_a_number_counts_where_the_table_gives_it_to_the_same_name(name, known, found):
    assert whose(name, known=known)[1] == [found]


def test_a_group_is_its_members_where_the_table_tells_them():
    rows = [
        {"Identifier": "Participant 1", "Full name": "Ann Lee", "Group": "A, B"},
        {"Identifier": "Participant 2", "Full name": "Bo Ng", "Group": "A"},
        {"Identifier": "Participant 3", "Full name": "Cem Kaya", "Group": "C"},
    ]
    found = whose("A_3_assignsubmission_file", known=rows)[1]
    assert found == [("Ann Lee", "1", False), ("Bo Ng", "2", False)]
    found = whose("A_3_assignsubmission_file", "B_4_assignsubmission_file", known=rows)[1]
    assert found == [("Ann Lee", "1", True), ("Bo Ng", "2", False), ("Ann Lee", "1", True)]


def test_names_in_a_zip_stay_whole_and_none_is_lost(tmp_path):
    long = "ä" * 80 + "_" + NAME  # cut at its beginning it would say nothing of whose it is
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"leeann_42_99_{long}", b"1")
        archive.writestr("XX_44_97_lab01.ipynb", b"2")
    content = (tmp_path / "a.zip").read_bytes().replace(b"XX_44", "ö_44".encode())  # UTF-8 unsaid, as a Mac writes it
    (tmp_path / "a.zip").write_bytes(content)
    with handed_in(tmp_path / "a.zip", NAME) as found:
        assert [(one.student, one.id) for one in found] == [("leeann", "42"), ("ö", "44")]
        assert len(os.fsencode(found[0].path.name)) < 255
        assert found[0].path.name.endswith(NAME)


def test_two_files_of_one_name_in_a_zip_both_stay(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"Ann_1_assignsubmission_file/{NAME}", b"1")
        archive.writestr(f"Bob_1_assignsubmission_file/{NAME}", b"2")
    content = (tmp_path / "a.zip").read_bytes().replace(b"Bob_", b"Ann_")
    (tmp_path / "a.zip").write_bytes(content)
    with handed_in(tmp_path / "a.zip", NAME) as found:
        assert [[path.read_bytes() for path in one.files] for one in found] == [[b"2", b"1"]]
