"""Ask for help in a lab session, where the course runs on a class's hub (utils/hub) and its instructor looks.

from utils.exercises.raise_hand import lower_hand, raise_hand
raise_hand("lab01 ex2")
lower_hand()
"""

from __future__ import annotations

from utils.exercises.class_service import Told, instructor_looks, send

NOT_HERE = "Your instructor would not see it: no class runs here, or the page that shows it is off."


def raise_hand(at: str = "") -> Told:
    """Tell the instructor that you want help. `at` says where you are. Nothing is raised: the answer says it."""
    return _ask(True, at)


def lower_hand() -> Told:
    """You need no help any more."""
    return _ask(False, "")


def _ask(up: bool, at: str) -> Told:
    if not instructor_looks():
        return Told(False, ("Your hand is not up.", NOT_HERE))
    try:
        told = send("hand", {"up": up, "at": at}, within=20)
    except OSError as error:
        return Told(False, (f"Your instructor was not told: {getattr(error, 'reason', None) or error}.",))
    if not up:
        return Told(True, ("Your hand is down.",))
    before = told["before"]
    who = "You are the first." if not before else f"{before} student{'s are' if before > 1 else ' is'} ahead of you."
    return Told(True, ("Your hand is up.", f"{who} Call lower_hand() to take it down."))
