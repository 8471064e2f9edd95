"""Late or not: by what a platform's table says, or by a deadline; and what being late costs.

    rule = deadline("2026-11-30 23:59", grace=15, penalty="10%/day up to 50%")

What the platforms say, by their source as it is now:
  Moodle, worksheet   moodle/moodle mod/assign/gradingtable.php: "Last modified (submission)" is a date such as "Monday,
                      23 November 2026, 9:00 PM"; Status has "2 hours 5 mins late" and "Extension granted until: DATE"
                      between dashes, each in words and in the language of the site; it ends in "late", or from 4.5 on
                      in "late -  - "
  Gradescope, grades  "Submission Time" with an offset from UTC, and "Lateness (H:M:S)" after extensions
  Canvas, files       LATE in the name of the file, without saying by how much
A time that nothing tells is not guessed. Dates without an offset are in the deadline's time zone, or this machine's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from utils.common.errors import Problem
from utils.grading.marking.mark import Late, rounded_points
from utils.grading.roster import Row, first, match, platform_id
from utils.grading.run.submissions import Submission

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ENGLISH = re.compile(
    r"(?:[A-Za-z]+, )?(?P<day>\d{1,2}) (?P<month>[A-Za-z]{3})[a-z]* (?P<year>\d{4}),? "
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::\d\d)? ?(?P<half>[AaPp]\.?[Mm]\.?)?"
)
GERMAN = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4}),? (?P<hour>\d{1,2}):(?P<minute>\d\d)")
PENALTY = re.compile(
    r"(?P<amount>\d{1,4}(?:[.,]\d{1,4})?) ?(?P<share>%)?(?: points?)?(?: ?(?:/|per|a) ?(?P<each>day|hour))?"
    r"(?:,? (?:up to|at most) (?P<most>\d{1,4}(?:[.,]\d{1,4})?) ?(?P<most_share>%)?)?"
)
EACH = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
# Moodle's words for how long, of which it writes the largest two.
UNITS = {"year": 365 * 86400, "week": 604800, "day": 86400, "hour": 3600, "min": 60, "sec": 1}
LENGTH = re.compile(r"(\d+) (year|week|day|hour|min|sec)s?\b")
MOODLES = re.compile(r"^(?:Submitted for grading|Draft|No submission)")
MOODLES_LATE = re.compile(r"(?:^|-\s)\s*(?P<by>[^-]+?)\s+late\s*(?:-|$)", re.IGNORECASE)
LATE_SOMEHOW = re.compile(r"\blate\b", re.IGNORECASE)
EXTENSION = re.compile(r"Extension granted until: (?P<until>.+?)(?: - |$)")
HANDED_IN = ("last modified (submission)", "submission time")
UNKNOWN = "when this was handed in is not known: say in overrides.csv what being late costs (exercise: late, points: 0)"
UNCLEAR = (
    "Moodle's Status has the word late in a form that is not known: say in overrides.csv what being late costs "
    "(exercise: late, points: 0)"
)
BY_HOW_MUCH = "late, and by how much is not known: say in overrides.csv what that costs (exercise: late)"


@dataclass(frozen=True)
class Penalty:
    """What being late costs: an amount, or a share of the points, once or for each day or hour that has begun."""

    amount: float = 0
    share: bool = False
    each: timedelta | None = None
    most: float = math.inf
    most_share: bool = False

    def points(self, by: timedelta | None, of: float) -> float | None:
        """Points to take off, of so many; None where it depends on how late, and that is not known."""
        times = 1
        if self.amount and self.each:
            if by is None:
                return None
            times = math.ceil(by / self.each)
        cost = times * (self.amount * of / 100 if self.share else self.amount)
        return rounded_points(min(cost, self.most * of / 100 if self.most_share else self.most, of))


@dataclass(frozen=True)
class Deadline:
    """What counts as late, and what that costs. Without `at` it is what the platform calls late."""

    at: datetime | None = None
    grace: timedelta = timedelta(0)
    penalty: Penalty = field(default_factory=Penalty)
    zone: tzinfo | None = None  # of dates without an offset; None for this machine's
    words: str = ""  # the rule as the instructor gave it

    @property
    def asked(self) -> bool:
        """Whether a time that is not known makes a difference that was asked for."""
        return self.at is not None or self.penalty.amount > 0


def deadline(at: str | None = None, *, grace: float = 0, penalty: str = "none") -> Deadline:
    """The rule that an instructor gives: `grace` in minutes. Raises Problem for what cannot be read."""
    if not 0 <= grace < 60 * 24 * 365:
        raise Problem(f"--grace {grace:g}: give minutes, from 0 on")
    cost, moment, zone, words = _penalty(penalty), None, None, []
    if at is not None:
        text, zone = _zone(at)
        moment = moment_in(text, zone)
        if moment is None:
            raise Problem(f"--deadline {at!r}: write it as '2026-11-30 23:59', or '2026-11-30 23:59 Europe/Berlin'")
        zone = zone or _offset(text)
        words.append(f"late after {' '.join(at.split())}")
    if grace:
        words.append(f"{grace:g} minutes of grace")
    if cost.amount:
        words.append(f"late costs {' '.join(penalty.split())}")
    return Deadline(moment, timedelta(minutes=grace), cost, zone, ", ".join(words))


def _penalty(text: str) -> Penalty:
    plain = " ".join(text.split())
    if plain.casefold() == "none":
        return Penalty()
    found = PENALTY.fullmatch(plain)
    if found is None:
        raise Problem(f"--late-penalty {text!r}: write '10%/day', '1/day', '20%', '10%/day up to 50%' or 'none'")
    number = {name: float(found[name].replace(",", ".")) for name in ("amount", "most") if found[name]}
    each = EACH[found["each"]] if found["each"] else None
    most_share = bool(found["most_share"])
    return Penalty(number["amount"], bool(found["share"]), each, number.get("most", math.inf), most_share)


def _zone(text: str) -> tuple[str, tzinfo | None]:
    """A moment without the name of a time zone behind it, and that zone."""
    words = text.split()
    if len(words) > 1 and re.fullmatch(r"[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)+|UTC", words[-1]):
        try:
            return " ".join(words[:-1]), ZoneInfo(words[-1])
        except (OSError, ValueError, KeyError):
            raise Problem(f"--deadline {text!r}: there is no time zone {words[-1]} here") from None
    return text, None


def _offset(text: str) -> tzinfo | None:
    """The offset from UTC that a moment itself says."""
    try:
        return datetime.fromisoformat(_tight(text)).tzinfo
    except ValueError:
        return None


def _tight(text: str) -> str:
    """A moment on one line, with its offset as Python writes it."""
    plain = re.sub(r" UTC$", "+00:00", " ".join(text.split()))
    return re.sub(r" ?([+-]\d\d):?(\d\d)$", r"\1:\2", plain) if ":" in plain else plain


def moment_in(text: str, zone: tzinfo | None = None) -> datetime | None:
    """The moment that a date and a time say, in UTC: None for what is none, or can be read in two ways.

    Without an offset it is in `zone`, or in this machine's. A date alone is none: it does not say when on that day.
    """
    plain = _tight(text)
    try:
        if found := ENGLISH.fullmatch(plain) or GERMAN.fullmatch(plain):
            half = (found.groupdict().get("half") or "").lower()[:1]
            hour = int(found["hour"])
            if half and not 1 <= hour <= 12:
                return None
            hour = hour % 12 + 12 * (half == "p") if half else hour
            month = found["month"].casefold()
            number = int(month) if month.isdigit() else MONTHS.index(month) + 1
            read = datetime(int(found["year"]), number, int(found["day"]), hour, int(found["minute"]))
        elif re.match(r"\d{4}-\d\d-\d\d[ T]\d", plain):
            read = datetime.fromisoformat(plain)
        else:
            return None
        return (read if read.tzinfo or zone is None else read.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


# --- who was late -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Came:
    """What is known of when a submission came. `late` is by the platform's own rule: None where it does not say."""

    at: datetime | None = None
    late: bool | None = None
    by: timedelta | None = None
    extended: datetime | None = None
    unclear: bool = False  # whether the platform says something about being late that could not be read


def lateness(
    submissions: Sequence[Submission], tables: Sequence[Sequence[Row]], rule: Deadline, most: float
) -> dict[str, Late]:
    """Who of those who handed in was late, or is not known to have been in time, with what that costs.

    `tables` are rows of a platform's files, `most` what a mark counts to. Raises Problem where a deadline or a penalty
    is given, and nothing says when anybody handed in.
    """
    came = _came([one for one in submissions if one.path is not None], tables, rule.zone)
    if rule.asked and came and all(one.late is None and one.at is None for one in came.values()):
        given = "--deadline" if rule.at is not None else "--late-penalty"
        raise Problem(
            f"{given}: nothing says when these were handed in: no file's name says LATE, as Canvas writes it. Give "
            f"Moodle's grading worksheet in English, or Gradescope's grades with --gradebook, or leave {given} out"
        )
    found = {student: _late(one, rule, most) for student, one in came.items()}
    return {student: late for student, late in found.items() if late is not None}


def _late(came: _Came, rule: Deadline, most: float) -> Late | None:
    if rule.at is not None and came.at is not None:
        by = came.at - max(rule.at, came.extended or rule.at)
        late: bool | None = by > timedelta(0)
    elif rule.at is not None:
        by, late = None, came.late or None  # in time by the platform's deadline is not in time by this one
    else:
        by, late = came.by, came.late
    if late is None:
        if not rule.asked and not came.unclear:
            return None
        if came.unclear:
            return Late("not known", 0, UNCLEAR)
        return Late("not known", 0, UNKNOWN if rule.penalty.amount else "")
    if not late or (by is not None and by <= rule.grace):
        return None
    cost = rule.penalty.points(by, most)
    return Late(_in_words(by), cost or 0, BY_HOW_MUCH if cost is None else "")


def _came(submissions: Sequence[Submission], tables: Sequence[Sequence[Row]], zone: tzinfo | None) -> dict[str, _Came]:
    """What the tables and the names of the files say, by student."""
    told_by_names = any(one.late for one in submissions)
    by_name = {one.student: one for one in submissions}
    found = {one.student: _Came(late=one.late if told_by_names else None) for one in submissions}
    for rows in tables:
        for student, place in match(submissions, rows).rows.items():
            one, read = by_name[student], _read(rows[place], zone)
            if read.at is not None or read.late is not None or read.unclear:
                found[student] = read
            elif {"Student", "ID"} <= set(rows[place]) and one.id == platform_id(rows[place]):
                found[student] = _Came(late=one.late)  # Canvas's own name for the file, which would have said so
    return found


def _read(row: Row, zone: tzinfo | None) -> _Came:
    """What a row of a platform's table says."""
    at = moment_in(first(row, HANDED_IN), zone)
    lateness = re.fullmatch(r"(\d+):(\d\d):(\d\d)", first(row, ["lateness (h:m:s)"]))
    if lateness:
        by = timedelta(hours=int(lateness[1]), minutes=int(lateness[2]), seconds=int(lateness[3]))
        return _Came(at, by > timedelta(0), by)
    status = first(row, ["status"]) if "identifier" in map(str.casefold, row) else ""
    extension = EXTENSION.search(status)
    extended = moment_in(extension["until"], zone) if extension else None
    late = MOODLES_LATE.search(status)
    by = _length(late["by"]) if late else None
    if by is not None:
        return _Came(at, True, by, extended)
    if LATE_SOMEHOW.search(status):
        return _Came(at, None, None, extended, unclear=True)
    # In another language the status says nothing that could be read.
    return _Came(at, False if MOODLES.match(status) else None, None, extended)


def _length(text: str) -> timedelta | None:
    seconds = sum(int(number) * UNITS[unit] for number, unit in LENGTH.findall(text))
    return timedelta(seconds=seconds) if seconds else None


def _in_words(by: timedelta | None) -> str:
    """How late, as in "1 day 2 h": the largest two units."""
    if by is None:
        return "late"
    minutes = max(1, math.ceil(by / timedelta(minutes=1)))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{days} day{'s' if days > 1 else ''}"] * (days > 0) + [f"{hours} h"] * (hours > 0)
    parts += [f"{minutes} min"] * (minutes > 0)
    return " ".join(parts[:2])
