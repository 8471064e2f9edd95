"""The game of schedules as a page without Python: by keyboard, by taps on a phone, and beside the Python engine."""

import json
import random
import sys

import pytest

from utils.schedules.rules import ticks
from utils.widgets.game.board import Game
from utils.widgets.game.levels import LEVELS
from utils.widgets.game.page import page as game_page

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the browser tests use Debian's chromium: run them on Linux"
    ),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The page, opened as a file on a phone that has no network."""
    from tests.browser.lab import browser_page

    path = tmp_path_factory.mktemp("page") / "game.html"
    path.write_text(game_page(), encoding="utf-8")
    with browser_page(has_touch=True, offline=True, color_scheme="dark") as page:
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto(path.as_uri())
        yield page


def in_order(schedule):
    """The moves of a schedule in an order in which they are legal."""
    return [(rank, str(action)) for tick in ticks(schedule)[0] for rank, action in tick]


@pytest.mark.parametrize("level", [1, 6])
def test_a_level_by_taps_at_360_pixels(alone, level):
    alone.locator("select").select_option(str(level))
    for rank, action in in_order(LEVELS[level - 1].best):
        alone.get_by_role("button", name=f"rank {rank}", exact=True).tap()
        kind, number = action.split(".")
        alone.get_by_role("group", name="micro-batch").get_by_role("button", name=number, exact=True).tap()
        alone.locator(f"[name='offer {kind}']").tap()
    assert "no shorter one is known" in alone.locator(".sg-done").inner_text()
    assert alone.evaluate("document.documentElement.scrollWidth") == 360
    small = "Math.min(...[...document.querySelectorAll('button')].map(each => each.getBoundingClientRect().height))"
    assert alone.evaluate(small) >= 32, "a finger has to hit it"


def test_a_page_is_played_by_keyboard_alone(alone):
    alone.locator("select").select_option("1")
    alone.evaluate("document.activeElement.blur()")
    said = alone.get_by_role("alert")
    for _ in range(5):
        alone.keyboard.press("Tab")
    press(alone, "b")
    assert said.inner_text().endswith("it needs its forward pass, F0.0, which it has not done yet")
    press(alone, "f f ArrowDown f b f b ArrowUp b b")
    told = said.inner_text()
    assert told.endswith("That is par (GPipe: 9); no shorter one is known.")
    press(alone, "ArrowDown")
    assert said.inner_text().startswith("rank 1 has F1.0 from 1 to 2, B1.0 from 2 to 4")


def test_the_focus_goes_with_the_rank_that_is_chosen(alone):
    alone.locator("select").select_option("1")
    alone.get_by_role("button", name="rank 0", exact=True).click()
    press(alone, "ArrowDown")
    assert alone.evaluate("document.activeElement.name") == "rank 1"


def test_a_click_anywhere_in_the_game_turns_the_keys_on_and_it_says_so(alone):
    for level in ("2", "1"):  # again
        alone.locator("select").select_option(level)
    alone.evaluate("document.activeElement.blur()")
    keys = alone.locator(".sg-keys")
    assert "Click here to use keys." in keys.inner_text()
    alone.get_by_text("Par 9").click()
    assert "Keys are on." in keys.inner_text()
    press(alone, "f")
    assert alone.get_by_role("alert").inner_text() == "F0.0 on rank 0, from 0 to 1."


@pytest.mark.parametrize(("level", "kinds"), [(1, "F, B"), (4, "F, B, I, W")])
def test_the_line_of_the_keys_names_what_the_level_has(alone, level, kinds):
    alone.locator("select").select_option(str(level))
    assert f" {kinds}: its next action of that kind." in alone.locator(".sg-keys").inner_text()


def press(page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def random_commands(game: Game, chance: random.Random, count: int):
    """Legal moves for the most part, and all kinds of others; each with what there is to see then."""
    seen = game.state()
    for _ in range(count):
        offers = [(rank, *offer) for rank, row in enumerate(seen["ranks"]) for offer in row["offers"]]
        legal = [f"{rank} {name}" for rank, name, is_legal in offers if is_legal]
        stage, number = chance.choice(["", "0.", "1.", "2.", "9."]), chance.choice(["", "0", "1", "7"])
        any_move = f"{chance.randrange(4)} {chance.choice('FBIW')}{stage}{number}"
        others = [any_move, any_move, any_move, "undo", "undo", "hint", "0 X"]
        command = chance.choice(legal) if legal and chance.random() < 0.6 else chance.choice(others)
        game.do(command)
        yield command, (seen := game.state())


def test_both_engines_answer_thousands_of_moves_alike(alone):
    chance, compared = random.Random(0), 0
    for level in range(1, len(LEVELS) + 1):
        steps = list(random_commands(Game(level), chance, 300))
        states = alone.evaluate(
            """([level, commands]) => {
                const other = new Game(game.levels, level);
                return commands.map(command => { other.do(command); return JSON.stringify(other.state()); });
            }""",
            [level, [command for command, _ in steps]],
        )
        for (command, expected), found in zip(steps, states, strict=True):
            assert json.loads(found) == json.loads(json.dumps(expected)), (level, command)
            compared += 1
    assert compared > 2000
