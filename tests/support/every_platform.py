"""A made-up class of sixty in the exports of every platform, with the mark that each row of the platform should get.

    .venv/bin/python -m tests.support.every_platform OUT     # writes the exports, grades them, and compares

The files are those that students do hand in: renamed, zipped, twice, unsaved, another lab's, a link, a PDF, and names
that are made to look like another student's.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from utils.common.files import ROOT
from utils.exercises.facts import load_lab

LAB = "lab01"
NAME = "lab01_split_a_model.ipynb"
ABSENT = "no mark, and none of the submissions"
ALL = tuple(load_lab(LAB).exercises)  # ex1 to ex5: 1, 3, 1, 2 and 3 points


@dataclass(frozen=True)
class Export:
    """What a platform gives: files by their path in the zip, its table, and the mark (or the reason) for each row.

    `expected` goes by what look_at.csv and the platform's file call a row: its number, its email, or its name. A mark
    is a number; a text is a part of the reason why there is none.
    """

    files: dict[str, bytes]
    table: str
    expected: dict[str, int | str]
    marks: str = "moodle.csv"
    key: str = "Identifier"
    late: tuple[str, ...] = ()  # students whose files say so


# --- what students hand in ----------------------------------------------------------------------------------------


def notebook(*exercises: str, ran: bool = True) -> dict:
    """The lab as it was released, with the model answers to some exercises."""
    released = json.loads((ROOT / "labs" / LAB / NAME).read_text(encoding="utf-8"))
    answers = json.loads((ROOT / "solutions" / LAB / NAME).read_text(encoding="utf-8"))
    model = {_grade_id(cell): cell["source"] for cell in answers["cells"] if _grade_id(cell)}
    for number, cell in enumerate(released["cells"]):
        if _grade_id(cell) in exercises:
            cell["source"] = model[_grade_id(cell)]
        if cell["cell_type"] == "code" and ran:
            cell["execution_count"] = number
    return released


def _grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def saved(content: dict) -> bytes:
    return json.dumps(content, indent=1).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return buffer.getvalue()


def without_ids(content: dict) -> dict:
    """As typed into a notebook of one's own: the code, and nothing that says where it comes from."""
    content = copy.deepcopy(content)
    content["cells"] = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for cell in content["cells"]:
        cell["metadata"] = {}
        cell["source"] = "# my own\n" + "".join(cell["source"])
    return content


def in_worksheets(content: dict) -> dict:
    """As a notebook of version 3 is."""
    cells = copy.deepcopy(content["cells"])
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["input"], cell["language"] = cell.pop("source"), "python"
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}


FULL = saved(notebook(*ALL))
ONE = saved(notebook("ex1"))
TWO = saved(notebook("ex1", "ex3"))
SIX = saved(notebook("ex1", "ex2", "ex4"))
RELEASED = saved(notebook(ran=False))
WRONG = saved(
    {
        **notebook(),
        "cells": [*notebook()["cells"], {"cell_type": "code", "metadata": {}, "source": "x = 1", "outputs": []}],
    }
)
NEVER_RUN = saved(
    {
        **notebook(ran=False),
        "cells": [
            *notebook(ran=False)["cells"],
            {"cell_type": "code", "metadata": {}, "source": "x = 1", "outputs": []},
        ],
    }
)
OTHER_LAB = (ROOT / "labs" / "lab02" / "lab02_follow_the_data.ipynb").read_bytes()
PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + b"x" * 3000
TOO_LARGE = b" " * 60_000_000  # what is in it is not read
BOMB = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": [' + b"{}," * 1_500_000 + b'{}], "cells": []}'
WEB_PAGE = b"<html><body>see https://colab.example/x</body></html>"
IN_A_ZIP = zipped(
    {f"lab01/{NAME}": FULL, f"lab01/.ipynb_checkpoints/{NAME}": RELEASED, f"__MACOSX/lab01/._{NAME}": b"\0\5\26\7"}
)


# --- Moodle -------------------------------------------------------------------------------------------------------


@dataclass
class Moodle:
    """A worksheet and the folders beside it, a student at a time."""

    files: dict[str, bytes] = field(default_factory=dict)
    rows: list[dict[str, str]] = field(default_factory=list)
    expected: dict[str, int | str] = field(default_factory=dict)

    def add(
        self, number: int, name: str, expected: int | str, files: dict[str, bytes], kind: str = "file", **more: str
    ):
        for file, content in files.items():
            self.files[f"{name.replace(chr(39), '')}_{number}_assignsubmission_{kind}/{file}"] = content
        if f"Participant {number}" not in self.expected:
            self.row(number, name, expected, **more)

    def row(self, number: int, name: str, expected: int | str, **more: str):
        about = {"Identifier": f"Participant {number}", "Full name": name, "Email address": f"u{number}@example.org"}
        self.rows.append({**about, **more})
        self.expected[f"Participant {number}"] = expected

    def export(self, without: tuple[str, ...] = (), flat: bool = False) -> Export:
        empty = {"Status": "Submitted for grading - ", "Grade": "", "Maximum Grade": "10.00"}
        rows = [{**row, **empty, "Last modified (grade)": "-"} for row in self.rows]
        rows = [{title: text for title, text in row.items() if title not in without} for row in rows]
        files = {path.replace("/", "_"): content for path, content in self.files.items()} if flat else self.files
        return Export(files, as_table(rows), self.expected)


def as_table(rows: list[dict[str, str]]) -> str:
    with io.StringIO() as text:
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        return text.getvalue()


def moodle_in_folders() -> Export:
    m = Moodle()
    m.add(201, "Ann Lee", 10, {NAME: FULL})
    m.add(202, "Björn Öztürk", 2, {NAME: TWO})
    m.add(203, "Zoë O'Brien", 10, {"homework FINAL (2).ipynb": FULL})
    m.add(204, "Not Saved", "as it was released", {NAME: RELEASED})
    m.add(205, "Cut Off", "cut off: was it uploaded whole?", {NAME: FULL[:9000]})
    m.add(206, "Zip Per", 10, {"lab01.zip": IN_A_ZIP})
    m.add(207, "Zip In Zip", 10, {"all.zip": zipped({"inner.zip": IN_A_ZIP})})
    both = f"2 notebooks: lab01_split_a_model (1).ipynb 10 of 10, {NAME} 1 of 10: say which counts"
    m.add(208, "Dup Licate", both, {NAME: ONE, "lab01_split_a_model (1).ipynb": FULL})
    m.add(209, "Copy Cat", "1 of 10", {NAME: ONE, f"Copy of {NAME}": FULL})
    m.add(210, "Twice Alike", 10, {NAME: FULL, f"again/{NAME}": FULL})
    m.add(211, "Emp Ty", "the file is empty", {NAME: b""})
    m.add(212, "Gi Gantic", "too large (60 MB, at most 50)", {NAME: TOO_LARGE})
    m.add(213, "Giant Zip", "too large (60 MB, at most 50)", {"lab01.zip": zipped({NAME: TOO_LARGE})})
    m.add(214, "Utf Sixteen", 10, {NAME: FULL.decode().encode("utf-16")})
    m.add(215, "Bom Ber", 10, {NAME: b"\xef\xbb\xbf" + FULL})
    m.add(216, "Lat In", "not text in UTF-8", {NAME: FULL.replace(b"device0", "ä".encode("latin-1"), 1)})
    m.add(217, "Pe Deef", "a PDF, and no notebook: the .ipynb is needed", {"lab01.pdf": PDF})
    m.add(218, "Py Thon", "a Python script, and no notebook", {"lab01.py": b"print(1)\n"})
    m.add(219, "Two Files", 10, {NAME: FULL, "lab01.html": WEB_PAGE, "lab01.pdf": PDF})
    m.add(220, "On Line", 10, {NAME: FULL})
    m.add(220, "On Line", 10, {"onlinetext.html": WEB_PAGE}, "onlinetext")
    m.add(221, "Only Text", "a text was handed in, and no file", {"onlinetext.html": WEB_PAGE}, "onlinetext")
    m.add(222, "Dot Txt", 10, {f"{NAME}.txt": FULL})
    m.add(223, "Dot Json", 10, {"lab01_split_a_model.json": FULL})
    m.add(224, "Wrong Lab", "the notebook of lab02, and not of lab01", {NAME: OTHER_LAB})
    m.add(225, "Both Labs", 6, {"lab02_follow_the_data.ipynb": OTHER_LAB, NAME: SIX})
    m.add(226, "Never Run", "no cell of the notebook was ever run", {NAME: NEVER_RUN})
    m.add(227, "All Wrong", 0, {NAME: WRONG})
    m.add(228, "Bo Mb", "lists and objects in it, and a notebook at most", {NAME: BOMB})
    m.add(229, "Old Timer", 10, {NAME: saved(in_worksheets(notebook(*ALL)))})
    m.add(230, "One Broken", "one more file cannot be read", {NAME: FULL, "lab01 backup.ipynb": FULL[:5000]})
    m.add(231, "Ann Lee", 6, {NAME: SIX})
    m.add(232, "Re Typed", 10, {"mine.ipynb": saved(without_ids(notebook(*ALL))), NAME: RELEASED})
    m.add(
        233,
        "Four Zips",
        "a zip within 3 zips",
        {"a.zip": zipped({"b.zip": zipped({"c.zip": zipped({"d.zip": IN_A_ZIP})})})},
    )
    m.row(299, "Ab Sent", ABSENT)
    return m.export()


def moodle_flat() -> Export:
    m = Moodle()
    m.add(301, "Ann Lee", 10, {NAME: FULL})
    m.add(302, "Cem Kaya", 2, {"victim_42_303_assignsubmission_file_lab01.ipynb": TWO})
    m.add(304, "Two Files", "1 of 10", {NAME: ONE, f"new {NAME}": FULL})
    m.row(303, "Vic Tim", ABSENT)
    return m.export(flat=True)


def moodle_blind() -> Export:
    """Every folder is "Participant", and the worksheet has no names."""
    m = Moodle()
    m.add(401, "Participant", 10, {NAME: FULL})
    m.add(402, "Participant", 2, {NAME: TWO})
    m.row(403, "Participant", ABSENT)
    return m.export(without=("Full name", "Email address"))


def moodle_groups() -> Export:
    """Groups have numbers of their own: that of Team Rocket is also Vic Tim's, who is in another group."""
    m = Moodle()
    m.row(501, "Ann Lee", 10, Group="Team Rocket")
    m.row(502, "Bo Ng", 10, Group="Team Rocket")
    m.row(77, "Vic Tim", 2, Group="Slow and Steady")
    m.row(503, "Cem Kaya", ABSENT, Group="Nothing Yet")
    m.row(504, "Eva Ito", 6, Group="Default group")
    m.files[f"Team Rocket_77_assignsubmission_file/{NAME}"] = FULL
    m.files[f"Slow and Steady_78_assignsubmission_file/{NAME}"] = TWO
    m.files[f"Default group_assignsubmission_file/{NAME}"] = SIX
    return m.export()


def moodle_groups_untold() -> Export:
    """The same with a table that does not say who is in a group: no mark goes to a student of the same number."""
    m = Moodle()
    m.row(501, "Ann Lee", ABSENT)
    m.row(77, "Vic Tim", ABSENT)
    m.expected["Team Rocket"] = "Moodle's number 77 is Vic Tim's in the table"
    m.files[f"Team Rocket_77_assignsubmission_file/{NAME}"] = FULL
    m.files[f"Slow and Steady_78_assignsubmission_file/{NAME}"] = TWO
    m.expected["Slow and Steady"] = "no row"
    return m.export()


# --- Canvas -------------------------------------------------------------------------------------------------------


def canvas_table(*students: tuple[int, str]) -> str:
    rows = [{"Student": "    Points Possible", "Lab 01: Split a model (88123)": "10.0"}]
    rows += [{"Student": name, "ID": str(n), "SIS User ID": f"S{n}", "Section": "MPC"} for n, name in students]
    titles = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab 01: Split a model (88123)"]
    return as_table([{title: row.get(title, "") for title in titles} for row in rows])


def canvas() -> Export:
    files = {
        f"leeann_601_9001_{NAME}": FULL,
        f"öztürkbjörn_LATE_602_9002_{NAME}": TWO,
        "obrienzoe_603_9003_lab01_split_a_model-1.ipynb": FULL,
        "zipper_604_9004_lab01.zip": IN_A_ZIP,
        f"duplicate_605_9005_{NAME}": ONE,
        "duplicate_605_9006_lab01_split_a_model-2.ipynb": FULL,
        "urlleo_606_link.html": WEB_PAGE,
        "textada_LATE_607_text.html": WEB_PAGE,
        # Names that a student has chosen to look like Moodle's, and like another student's of Canvas.
        f"mallorym_608_9008_x_609_assignsubmission_file_{NAME}": FULL,
        "trentt_610_9010_victim_609_9999_lab01.ipynb": FULL,
        # Canvas takes "_609_" out of a name, and not "_6.09_": this is who calls herself "Victim, Vic_6.09_1.1".
        f"victimvic_609_11_611_9011_{NAME}": FULL,
        f"x_609_11_614_9014_{NAME}": ONE,
        "numbered_612_9012_1_lab01.ipynb": SIX,
        f"हिन्दीकि_615_9015_{NAME}": ONE,  # marks on letters
        f"teamrocket_613_9013_{NAME}": FULL,
    }
    rows = [(601, "Lee, Ann"), (602, "Öztürk, Björn"), (603, "O'Brien, Zoe"), (604, "Per, Zip"), (605, "Licate, Dup")]
    rows += [(606, "Url, Leo"), (607, "Text, Ada"), (608, "Mallory, M"), (609, "Victim, Vic"), (610, "Trent, T")]
    rows += [
        (611, "Victim, Vic_6.09_1.1"),
        (614, "X_6.09_1.1"),
        (612, "Bered, Num"),
        (613, "Kaya, Cem"),
        (615, "हिन्दी, कि"),
        (699, "Sent, Ab"),
    ]
    expected: dict[str, int | str] = {"601": 10, "615": 1, "602": 2, "603": 10, "604": 10, "605": "1 of 10"}
    expected |= {"606": "a link was handed in, and no file", "607": "a text was handed in, and no file"}
    expected |= {"608": 10, "609": ABSENT, "612": 6}
    expected |= {"610": ABSENT, "trentt_610_9010_victim_609_9999_lab01.ipynb": "more than one student"}
    expected |= {"614": ABSENT, f"x_609_11_614_9014_{NAME}": "more than one student"}
    expected |= {"611": ABSENT, f"victimvic_609_11_611_9011_{NAME}": "more than one student"}
    expected |= {"613": ABSENT, "teamrocket": "Canvas's number 613 is Kaya, Cem's"}
    expected |= {"699": ABSENT}
    return Export(files, canvas_table(*rows), expected, "canvas.csv", "ID", ("öztürkbjörn", "textada"))


def canvas_anonymous() -> Export:
    files = {f"anon_a1B2c_9101_{NAME}": FULL, f"LATE_anon_70200_9102_{NAME}": ONE}
    expected: dict[str, int | str] = {"anon_a1B2c": "anonymous marking", "anon_70200": "anonymous marking"}
    expected |= {"70200": ABSENT}
    return Export(files, canvas_table((70200, "Lee, Ann")), expected, "canvas.csv", "ID", ("anon_70200",))


# --- Gradescope, nbgrader, folders ----------------------------------------------------------------------------------


def gradescope() -> Export:
    """Two hand in together, and one has another's list in the files."""
    people = {
        "submission_1": [("Ann Lee", "s1")],
        "submission_2": [("Bo Ng", "s2"), ("Cem Kaya", "s3")],
        "submission_3": [("Ann Lee", "s4")],
        "submission_4": [("Mal Lory", "s5")],
    }
    listed = "".join(
        f"{folder}:\n  :submitters:\n"
        + "".join(f"  - :name: {name}\n    :sid: {sid}\n    :email: {sid}@example.org\n" for name, sid in whose)
        + "  :created_at: 2026-11-23 21:00:00.000000000 Z\n"
        for folder, whose in people.items()
    )
    files = {"submission_metadata.yml": listed.encode()}
    files |= {f"submission_{n}/{NAME}": content for n, content in enumerate((FULL, SIX, TWO, ONE), 1)}
    files["submission_4/submission_metadata.yml"] = b"submission_1:\n  :submitters:\n  - :email: s6@example.org\n"
    files = {f"assignment_5_export/{path}": content for path, content in files.items()}
    names = [("Ann", "Lee"), ("Bo", "Ng"), ("Cem", "Kaya"), ("Ann", "Lee"), ("Mal", "Lory"), ("Vic", "Tim")]
    rows = [
        {"First Name": one, "Last Name": two, "SID": f"s{n}", "Email": f"S{n}@example.org", "Role": "Student"}
        for n, (one, two) in enumerate(names, 1)
    ]
    expected: dict[str, int | str] = {f"s{n}@example.org": mark for n, mark in enumerate((10, 6, 6, 2, 1), 1)}
    expected["s6@example.org"] = ABSENT
    return Export(files, as_table(rows), expected, "gradescope.zip")


def emails(*names: str) -> str:
    return as_table(
        [
            {"First name": n.title(), "Last name": "X", "ID number": "", "Email address": f"{n}@example.org"}
            for n in names
        ]
    )


def nbgrader() -> Export:
    """Folders of all assignments, of which one is graded."""
    files = {
        f"ann/lab01/{NAME}": FULL,
        "ann/lab02/lab02_follow_the_data.ipynb": OTHER_LAB,
        "ann/lab01/timestamp.txt": b"x",
    }
    files |= {f"bob/lab01/{NAME}": TWO, "cat/lab02/lab02_follow_the_data.ipynb": OTHER_LAB}
    expected: dict[str, int | str] = {"ann@example.org": 10, "bob@example.org": 2}
    expected |= {"cat": "nothing was handed in for lab01"}
    return Export(files, emails("ann", "bob", "cat"), expected, "moodle.csv", "Email address")


def a_folder() -> Export:
    """Files that came by email, among them one with a name that looks like a platform's."""
    files = {"ann.ipynb": FULL, f"bob/{NAME}": TWO, "cem.zip": IN_A_ZIP, "deb.pdf": PDF}
    files[f"eve_1_2_{NAME}"] = FULL
    expected: dict[str, int | str] = {"ann@example.org": 10, "bob@example.org": 2, "cem@example.org": 10}
    expected |= {"deb": "a PDF, and no notebook", "fay@example.org": ABSENT}
    expected |= {"eve_1_2_lab01_split_a_model": "looks like one that Canvas writes, and 'ann.ipynb' beside it does not"}
    return Export(files, emails("ann", "bob", "cem", "deb", "fay"), expected, "moodle.csv", "Email address")


def a_mixture() -> Export:
    """Canvas's files and one that came by email: no name is believed, and no mark is in another's row."""
    files = {
        f"leeann_801_9201_{NAME}": FULL,
        f"mallorym_802_9202_x_803_assignsubmission_file_{NAME}": FULL,
        "ng.ipynb": ONE,
    }
    expected: dict[str, int | str] = {n: ABSENT for n in ("801", "802", "803")}
    expected |= {f"leeann_801_9201_{NAME[:-6]}": "looks like one that Canvas writes"}
    table = canvas_table((801, "Lee, Ann"), (802, "Mallory, M"), (803, "Victim, Vic"))
    return Export(files, table, expected, "canvas.csv", "ID")


EXPORTS: dict[str, Callable[[], Export]] = {
    "Moodle, folders": moodle_in_folders,
    "Moodle, flat": moodle_flat,
    "Moodle, blind": moodle_blind,
    "Moodle, groups": moodle_groups,
    "Moodle, groups that no table tells": moodle_groups_untold,
    "Canvas": canvas,
    "Canvas, anonymous": canvas_anonymous,
    "Gradescope": gradescope,
    "nbgrader": nbgrader,
    "a folder": a_folder,
    "a mixture": a_mixture,
}
IN_FOLDERS = ("nbgrader", "a folder")  # as they lie on a disk, and not in a zip


def write(name: str, export: Export, folder: Path) -> tuple[Path, Path]:
    """Write an export, and the platform's table beside it: where they are."""
    folder.mkdir(parents=True)
    table = folder / "table.csv"
    table.write_text(export.table, encoding="utf-8-sig")
    if name not in IN_FOLDERS:
        place = folder / "submissions.zip"
        place.write_bytes(zipped(export.files))
        return place, table
    for path, content in export.files.items():
        target = folder / "submissions" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return folder / "submissions", table


def compared(export: Export, exports: Path) -> list[tuple[str, str, str, bool]]:
    """(row, expected, got, whether it is so) for every row, and for every mark that no row should have."""
    marks, reasons = _marks(export, exports), _reasons(exports)
    found = []
    for row, wanted in export.expected.items():
        got = str(marks[row]) if row in marks else reasons.get(row, "neither a mark nor a reason")
        right = marks.get(row) == wanted if isinstance(wanted, int) else row not in marks and _says(got, wanted)
        found.append((row, str(wanted), got, right))
    found += [(row, "no such row", str(mark), False) for row, mark in marks.items() if row not in export.expected]
    return found


def _says(got: str, wanted: str) -> bool:
    """Whether a reason is the one. A row without a submission is told in other words where the class list has it."""
    absent = ("no submission is this student's", "nothing was handed in")
    return any(words in got for words in absent) if wanted == ABSENT else wanted in got


def _marks(export: Export, exports: Path) -> dict[str, int]:
    path = exports / export.marks
    if not path.exists():
        return {}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as opened:
            return {email: one["score"] for email, one in json.loads(opened.read("results.json")).items()}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    column = list(rows[0]).index(export.key)
    given = rows[0].index("Grade") if "Grade" in rows[0] else -1
    return {row[column]: int(float(row[given])) for row in rows[1:] if row[column]}


def _reasons(exports: Path) -> dict[str, str]:
    """What look_at.csv says of each student, by name and by number."""
    found: dict[str, str] = {}
    with (exports / "look_at.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            for key in filter(None, (row[0], row[1], row[1].lower(), f"Participant {row[1]}", f"{row[1]}@example.org")):
                found.setdefault(key, " | ".join(row[2:]))
    return found


def main(out: Path) -> None:
    """Write all exports to `out`, grade each in earnest, and print the table of expected and got."""
    import time

    from utils.grading.folder import grade_folder

    began, rows, wrong = time.monotonic(), 0, 0
    for name, make in EXPORTS.items():
        export = make()
        folder = out / name.replace(", ", "-").replace(" ", "-")
        place, table = write(name, export, folder)
        grade_folder(LAB, place, folder / "graded", students=table, gradebook=table, jobs=2)
        for row, wanted, got, right in compared(export, folder / "graded" / "exports"):
            rows, wrong = rows + 1, wrong + (not right)
            print(f"{'ok   ' if right else 'WRONG'} {name}: {row}: {wanted[:60]!r}: {got[:150]}", flush=True)
    print(f"{rows} rows, {wrong} wrong, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
