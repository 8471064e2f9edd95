"""Late or not: what platforms write, a deadline, a grace and a penalty; and what is not known is not guessed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from utils.common.errors import Problem
from utils.grading.marking.late import BY_HOW_MUCH, UNCLEAR, UNKNOWN, deadline, lateness, moment_in
from utils.grading.marking.mark import Late
from utils.grading.roster import Row
from utils.grading.run.submissions import Submission

HERE = Path("lab01.ipynb")


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    """A machine in Berlin, where the clocks went back on 25 October 2026."""
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def handed_in(student, **more):
    return Submission(student, HERE, **more)


def moodle(number, name, status, modified="-") -> Row:
    return {
        "Identifier": f"Participant {number}",
        "Full name": name,
        "Status": status,
        "Last modified (submission)": modified,
    }


def late(submissions, tables, rule, most=10):
    return lateness(submissions, tables, rule, most)


# --- dates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Monday, 23 November 2026, 9:00 PM", utc(2026, 11, 23, 20)),
        ("Tuesday, 24 November 2026, 12:05 AM", utc(2026, 11, 23, 23, 5)),
        ("Tuesday, 24 November 2026, 12:05 PM", utc(2026, 11, 24, 11, 5)),
        ("Thursday, 1 October 2026, 9:00\u202fAM", utc(2026, 10, 1, 7)),
        ("Monday, 23 November 2026, 21:00", utc(2026, 11, 23, 20)),
        ("2026-11-30 23:59", utc(2026, 11, 30, 22, 59)),
        ("2026-11-30T23:59:30Z", utc(2026, 11, 30, 23, 59, 30)),
        ("2026-11-30 23:59:30 UTC", utc(2026, 11, 30, 23, 59, 30)),
        ("2026-11-30 16:26:23 -0700", utc(2026, 11, 30, 23, 26, 23)),
        ("30.11.2026 23:59", utc(2026, 11, 30, 22, 59)),
        *((text, None) for text in ("-", "", "2026-11-30", "11/12/2026 9:00 PM", "Montag, 30. November 2026, 21:00")),
        *((text, None) for text in ("Monday, 31 February 2026, 9:00 PM", "Monday, 3 Nonsense 2026, 9:00 PM")),
        *((text, None) for text in ("Monday, 23 November 2026, 13:00 PM", "2026-11-30 25:00", "9" * 400, "now")),
    ],
)
def test_a_date_is_read_in_this_machines_zone_or_not_at_all(text, moment):
    assert moment_in(text) == moment


def test_a_deadline_may_name_its_zone_and_dates_are_then_in_it():
    rule = deadline("2026-11-30 23:59 America/New_York", penalty="1/day")
    assert rule.at == utc(2026, 12, 1, 4, 59)
    ann = [handed_in("Ann Lee")]
    in_time = moodle(1, "Ann Lee", "Submitted for grading", "Monday, 30 November 2026, 11:58 PM")
    assert late(ann, [[in_time]], rule) == {}
    too_late = moodle(1, "Ann Lee", "Submitted for grading", "Tuesday, 1 December 2026, 12:05 AM")
    assert late(ann, [[too_late]], rule) == {"Ann Lee": Late("6 min", 1)}


@pytest.mark.parametrize("text", ["", "soon", "2026-11-30", "30/11/2026 23:59", "2026-11-30 23:59 Europe/Atlantis"])
def test_a_deadline_that_cannot_be_read_is_one_line(text):
    with pytest.raises(Problem, match=r"^--deadline .*") as problem:
        deadline(text)
    assert "\n" not in str(problem.value)


# --- penalties ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("penalty", "by", "points"),
    [
        ("none", timedelta(days=9), 0),
        ("20%", timedelta(minutes=1), 2),
        ("20%", None, 2),
        ("3", timedelta(days=9), 3),
        ("10%/day", timedelta(minutes=1), 1),
        ("10%/day", timedelta(days=1), 1),
        ("10%/day", timedelta(days=1, minutes=1), 2),
        ("10% per day up to 30%", timedelta(days=9), 3),
        ("1/day at most 2.5", timedelta(days=9), 2.5),
        ("0,5 / hour", timedelta(hours=2, minutes=1), 1.5),
        ("10%/day", timedelta(days=99), 10),
        ("10%/day", None, None),
    ],
)
def test_a_penalty_costs_points_for_each_day_that_has_begun(penalty, by, points):
    assert deadline(penalty=penalty).penalty.points(by, 10) == points


@pytest.mark.parametrize("text", ["", "a lot", "-1", "10%/week", "1e9", "10%/day up to", "1" * 99])
def test_a_penalty_that_cannot_be_read_is_one_line(text):
    with pytest.raises(Problem, match="write '10%/day'"):
        deadline(penalty=text)
    with pytest.raises(Problem, match="--grace"):
        deadline(grace=-1)


# --- who was late -------------------------------------------------------------------------------------------------

CLASS = [handed_in("Ann Lee", id="1"), handed_in("Bo Ng", id="2"), handed_in("Cy", id="3"), Submission("Di", None)]
WORKSHEET = [
    moodle(1, "Ann Lee", "Submitted for grading - Not marked", "Monday, 23 November 2026, 9:00 PM"),
    moodle(2, "Bo Ng", "Submitted for grading - 1 day 2 hours late - Graded", "Tuesday, 24 November 2026, 11:00 PM"),
    moodle(
        3,
        "Cy",
        "Submitted for grading - Extension granted until: Wednesday, 25 November 2026, 9:00 PM",
        "Wednesday, 25 November 2026, 9:30 PM",
    ),
    moodle(4, "Di", "No submission - Assignment is overdue by: 2 days"),
]


def test_moodles_own_word_counts_without_a_deadline():
    rule = deadline(penalty="10%/day")
    assert late(CLASS, [WORKSHEET], rule) == {"Bo Ng": Late("1 day 2 h", 2)}
    assert late(CLASS, [[], WORKSHEET], deadline()) == {"Bo Ng": Late("1 day 2 h", 0)}


def test_a_deadline_counts_instead_with_extensions_and_a_grace():
    found = late(CLASS, [WORKSHEET], deadline("2026-11-23 20:00", penalty="1/day"))
    assert found == {"Ann Lee": Late("1 h", 1), "Bo Ng": Late("1 day 3 h", 2), "Cy": Late("30 min", 1)}
    found = late(CLASS, [WORKSHEET], deadline("2026-11-23 20:00", grace=60, penalty="1/day"))
    assert found == {"Bo Ng": Late("1 day 3 h", 2)}, "who is later than the grace is late by all of it"
    assert late(CLASS, [WORKSHEET], deadline("2026-11-30 20:00", penalty="1/day")) == {}


def test_gradescope_tells_the_time_and_how_late():
    titles = ("Name", "Email", "Submission Time", "Lateness (H:M:S)")
    rows = [
        dict(zip(titles, row, strict=True))
        for row in (
            ("Ann Lee", "a@x.org", "2026-11-23 20:00:00 -0700", "00:00:00"),
            ("Bo Ng", "b@x.org", "2026-11-25 00:00:00 -0700", "28:00:00"),
            ("Cy", "c@x.org", "", ""),
        )
    ]
    people = [handed_in("Ann Lee"), handed_in("Bo Ng"), handed_in("Cy")]
    found = late(people, [rows], deadline(penalty="10%/day"))
    assert found == {"Bo Ng": Late("1 day 4 h", 2), "Cy": Late("not known", 0, UNKNOWN)}
    found = late(people[:2], [rows], deadline("2026-11-24 03:30 Europe/Berlin", penalty="1"))
    assert found == {"Ann Lee": Late("30 min", 1), "Bo Ng": Late("1 day 4 h", 1)}


def test_canvas_says_late_and_not_by_how_much():
    people = [handed_in("leeann", id="11"), handed_in("ngbo", id="12", late=True)]
    assert late(people, [], deadline(penalty="20%")) == {"ngbo": Late("late", 2)}
    assert late(people, [], deadline(penalty="10%/day")) == {"ngbo": Late("late", 0, BY_HOW_MUCH)}
    assert late(people, [], deadline()) == {"ngbo": Late("late", 0)}
    found = late(people, [], deadline("2026-11-30 23:59", penalty="1"))
    assert found == {"leeann": Late("not known", 0, UNKNOWN), "ngbo": Late("late", 1)}, "its deadline may be another"


def test_that_none_was_late_in_canvas_is_known_by_its_gradebook():
    people, rows = [handed_in("leeann", id="11")], [{"Student": "Lee, Ann", "ID": "11", "Section": "A"}]
    assert late(people, [rows], deadline(penalty="10%/day")) == {}


@pytest.mark.parametrize("how", [{"at": "2026-11-30 23:59"}, {"penalty": "1/day"}])
def test_a_deadline_of_which_nothing_can_be_said_is_one_line(how):
    with pytest.raises(Problem, match=r"nothing says when these were handed in.*worksheet in English"):
        late([handed_in("ann")], [], deadline(**how))
    assert late([handed_in("ann")], [], deadline()) == {}
    assert late([Submission("ann", None)], [], deadline(**how)) == {}


def test_a_status_in_another_language_says_nothing():
    rows = [moodle(1, "Ann Lee", "Zur Bewertung abgegeben - 2 Tage verspätet", "Montag, 30. November 2026, 21:00")]
    rows.append(moodle(2, "Bo Ng", "Submitted for grading"))
    people = [handed_in("Ann Lee"), handed_in("Bo Ng")]
    assert late(people, [rows], deadline(penalty="1/day")) == {"Ann Lee": Late("not known", 0, UNKNOWN)}
    assert late(people, [rows], deadline()) == {}


@pytest.mark.parametrize(
    ("status", "by"),
    [
        ("Submitted for grading - 2 hours 5 mins late", "2 h 5 min"),
        ("Submitted for grading - 2 hours 5 mins late - ", "2 h 5 min"),
        ("Submitted for grading -  - 2 hours 5 mins late -  - ", "2 h 5 min"),
        ("Submitted for grading - Graded - 1 day late -  - Extension granted until: soon", "1 day"),
        ("Draft (not submitted) - 1 hour late", "1 h"),
    ],
)
def test_the_forms_in_which_moodle_says_late(status, by):
    found = late([handed_in("Ann Lee")], [[moodle(1, "Ann Lee", status)]], deadline(penalty="1"))
    assert found == {"Ann Lee": Late(by, 1)}


@pytest.mark.parametrize(
    "status",
    ["Submitted for grading: late", "Submitted for grading - rather late", "Submitted for grading - Late by 2 hours"],
)
@pytest.mark.parametrize("penalty", ["none", "10%/day", "2"])
def test_late_in_a_form_that_is_not_known_is_held_back_and_never_in_time(status, penalty):
    rows = [moodle(1, "Ann Lee", status), moodle(2, "Bo Ng", "Submitted for grading")]
    people = [handed_in("Ann Lee"), handed_in("Bo Ng")]
    assert late(people, [rows], deadline(penalty=penalty)) == {"Ann Lee": Late("not known", 0, UNCLEAR)}
    rows[0]["Last modified (submission)"] = "Monday, 23 November 2026, 9:00 PM"
    rows[1]["Last modified (submission)"] = "Monday, 23 November 2026, 8:00 PM"
    found = late(people, [rows], deadline("2026-11-23 20:30", penalty="1"))
    assert found == {"Ann Lee": Late("30 min", 1)}, "the time that it came is known"


def test_whose_row_is_not_known_is_not_guessed():
    rows = [moodle(1, "Ann Lee", "Submitted for grading - 2 days late"), moodle(2, "Ann Lee", "Submitted for grading")]
    found = late(
        [handed_in("Ann Lee"), handed_in("Bo Ng", late=True)], [rows], deadline("2026-11-30 23:59", penalty="1")
    )
    assert found["Ann Lee"] == Late("not known", 0, UNKNOWN)
