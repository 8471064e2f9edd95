"""The game of schedules: levels, moves and their answers, the board as text, the widget and the page."""

import builtins
import itertools
import json
import re
import subprocess
import sys

import pytest
import torch

from tests.support.notebooks import ROOT
from utils.schedules import Memory, mistake, play, run
from utils.schedules.rules import ticks
from utils.widgets import front_end, schedule_game
from utils.widgets.game import search
from utils.widgets.game.levels import BEST, LEVELS
from utils.widgets.game.page import page

NUMBERS = range(1, len(LEVELS) + 1)


def moves(schedule):
    """The moves that make a schedule, in an order in which they are legal."""
    return [f"{rank} {action}" for rank, action in itertools.chain.from_iterable(ticks(schedule)[0])]


# --- levels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.title)
def test_the_best_schedule_keeps_to_the_level_and_is_not_above_par(level):
    best = level.best
    assert mistake(best, level.cap) is None
    assert (best.placement, best.micro_batches) == (level.placement, level.micro_batches)
    assert {action.kind for row in best.lists for action in row} <= set(level.kinds)
    assert level.best_time <= level.par


def least_time(level) -> float:
    """What no schedule can beat, whatever the cap: some rank waits for its first input, works, and is waited for.

    After the last action of a rank with a B of stage s come the B of all stages before s on other ranks; a W may be
    the last.
    """
    whole, stages = "W" not in level.kinds, len(level.placement)
    times = []
    for rank in range(level.empty.ranks):
        first = level.placement.index(rank)
        work = 3 * level.micro_batches * stages / level.empty.ranks
        times.append(first + work + (2 * first if whole else 0))
    return max(times)


def test_the_best_schedules_cannot_be_beaten_but_for_the_last_which_a_cap_decides():
    short = [level.title for level in LEVELS if level.best_time > least_time(level)]
    assert short == ["Less memory than 1F1B"]


def test_three_levels_have_something_beyond_par():
    below = {level.title: level.par - level.best_time for level in LEVELS if level.best_time < level.par}
    assert below == {"The backward pass in halves": 2, "A V": 1, "Less memory than 1F1B": 3}


def test_par_is_for_as_much_work_whatever_the_size_of_stages():
    last = LEVELS[-1]
    assert play(last.published).work * 2 == play(last.best).work
    assert last.par == 2 * play(last.published).span
    assert max(Memory().peak(last.published)) > last.cap, "the text says that 1F1B holds more"


@pytest.mark.slow
def test_best_is_what_the_search_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "BEST", tmp_path / "best.json")
    search.main()
    assert (tmp_path / "best.json").read_text() == BEST.read_text()


def test_there_is_no_other_level():
    for number in (0, len(LEVELS) + 1, True, "1"):
        with pytest.raises(ValueError, match=rf"^level={number!r}: they are 1 to {len(LEVELS)}$"):
            schedule_game(number)


# --- moves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
def test_every_level_can_be_played_to_its_best(number):
    game = schedule_game(number)
    said = game.move(*moves(game.level.best))
    assert (game.tone, game.complete) == ("done", True)
    assert said.endswith("no shorter one is known.")
    assert f"Complete in {game.level.best_time:g}. " in said
    assert {str(action) for row in game.schedule.lists for action in row} == {
        str(action) for row in game.level.best.lists for action in row
    }
    assert mistake(game.schedule, game.level.cap) is None


@pytest.mark.parametrize(
    ("level", "before", "move", "answer"),
    [
        (1, [], "1 F", "F1.0 as its first action: its input comes from F0.0, which rank 0 has not done yet"),
        (1, ["0 F"], "0 F0", "F0.0 as its second action: it is already in the schedule"),
        (1, ["0 F", "0 F"], "0 F", "F0.0 as its third action: it is already in the schedule"),
        (1, [], "0 F1.0", "F1.0 as its first action: stage 1 is on rank 1"),
        (1, [], "0 F7", "F0.7 as its first action: there is no micro-batch 7; the last is 1"),
        (1, [], "0 F9.0", "F9.0 as its first action: there is no stage 9; the last is 1"),
        (1, [], "0 W", "W0.0: in this level, the backward pass is in one piece, B"),
        (2, ["0 F"] * 3, "0 F", "F0.3 as its 4th action: it would hold 4 micro-batches, but the cap is 3"),
    ],
)
def test_an_illegal_move_is_answered_with_its_reason_and_changes_nothing(level, before, move, answer):
    game = schedule_game(level)
    game.move(*before)
    lists = game.schedule.lists
    assert game.move(move) == f"rank {move[0]} cannot do {answer}"
    assert (game.tone, game.schedule.lists) == ("refused", lists)
    assert game.text().count(answer) == 1


def test_what_is_no_move_is_told_how_to_write_one():
    game = schedule_game()
    assert game.move("2 F") == "there is no rank 2; the last is 1"
    assert game.move("F0").startswith("'F0' is not a move: write 0 F for the next forward pass of rank 0, ")
    assert game.schedule == game.level.empty


def test_the_moves_after_an_illegal_one_are_not_made():
    game = schedule_game()
    game.move("0 F", "0 B", "0 F")
    assert game.schedule.lists == ((("F", 0, 0),), ())


def test_a_letter_takes_the_next_legal_micro_batch_on_any_stage_of_the_rank():
    game = schedule_game(3)
    game.move("0 F", "0 F1", "1 F1", "0 F", "0 F")
    assert str(game.schedule).splitlines()[0] == "rank 0: F0.0 F0.1 F2.1"
    assert game.said.startswith("rank 0 cannot do F2.0 "), "the next one that is left"


def test_moves_are_taken_back_one_by_one():
    game = schedule_game()
    game.move("0 F", "1 F")
    game.undo()
    assert str(game.schedule) == "rank 0: F0.0\nrank 1: "
    game.undo()
    assert game.undo() == "There is nothing to undo."
    assert game.schedule == game.level.empty


def test_hints_come_in_steps_and_begin_again_with_the_level():
    game = schedule_game(5)
    said = [game.hint() for _ in range(4)]
    assert [words.split(":")[0] for words in said] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "Hint 3 of 3"]
    assert said[2].endswith(f"rank 0 does {' '.join(map(str, game.level.best.lists[0]))}.")
    game.start()
    assert game.hint() == said[0]


def test_a_board_on_which_nothing_can_go_on_says_so():
    game = schedule_game(7)
    game.move("0 F", "0 F", "0 F", "1 F", "1 F1", "1 F2")
    assert game.line.endswith("Held at most: rank 0: 1.5 of 1.5, rank 1: 1.5 of 1.5. No move is legal now: undo some.")


def test_the_least_bubble_when_complete_grows_with_each_wait_and_ends_as_the_bubble():
    game, least = schedule_game(), []
    for move in moves(game.level.published):
        least.append(int(re.search(r"and at least (\d+)% when complete", game.line)[1]))
        game.move(move)
    assert least == sorted(least)
    assert f"Bubble {100 * game.played.timeline.bubble_fraction():.0f}%. " in game.line
    assert least[-1] == round(100 * (1 - game.played.share))


# --- showing ----------------------------------------------------------------------------------------------------------


def test_the_board_as_text(capsys):
    game = schedule_game()
    game.move("0 F", "0 F", "1 F", "1 B")
    game._ipython_display_()
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Par 9 (GPipe), shortest known 9.",
        "",
        "time    0    1    2    3    4    5    6    7    8    9",
        "rank 0  F0.0 F0.1 .    .    .    .    .    .    .    .",
        "rank 1  .    F1.0 B1.0----- .    .    .    .    .    .",
        "",
        "Time 4. Bubble 38%, and at least 14% when complete. Held at most: rank 0: 2, rank 1: 1.",
        "B1.0 on rank 1, from 2 to 4.",
        "Legal next: rank 0: B0.0; rank 1: F1.1",
    ]


def test_a_widget_sends_moves_and_follows_what_python_does(monkeypatch):
    monkeypatch.setenv("COURSE_WIDGETS", "1")
    monkeypatch.setattr(front_end, "in_kernel", lambda: True)
    game = schedule_game()
    widget = game._shown()
    assert widget is game._shown(), "one widget, however often it is shown"
    widget._handle_custom_msg("0 F", [])  # as a view sends it
    assert widget.state["ranks"][0]["cells"] == [("F0.0", 0.0, 1.0)]
    widget._handle_custom_msg("level 4", [])
    assert (game.number, widget.state["level"]) == (4, 4)
    game.move("0 B")
    assert widget.state["tone"] == "refused"


def test_without_anywidget_the_game_is_text(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "anywidget":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setenv("COURSE_WIDGETS", "1")
    monkeypatch.setattr(front_end, "in_kernel", lambda: True)
    monkeypatch.delitem(sys.modules, "utils.widgets.game.widget", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    assert schedule_game()._shown() is None


def test_naming_the_game_imports_no_torch():
    code = "import sys; from utils.widgets import schedule_game; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).strip() == "False"


def test_your_schedule_runs_on_real_tensors_with_the_gradients_of_the_undivided_model():
    game = schedule_game(7)
    game.move(*moves(game.level.best))
    torch.manual_seed(0)
    stages = [torch.nn.Linear(4, 4) for _ in range(4)]
    x, y, loss = torch.randn(6, 4), torch.randn(6, 4), torch.nn.functional.mse_loss
    run(game.schedule, stages, x, y, loss, ["cpu", "cpu"])
    found = [stage.weight.grad.clone() for stage in stages]
    model = torch.nn.Sequential(*stages)
    model.zero_grad()
    loss(model(x), y).backward()
    for stage, gradient in zip(stages, found, strict=True):
        torch.testing.assert_close(gradient, stage.weight.grad)


def test_the_page_loads_nothing_and_has_all_levels():
    text = page()
    assert not re.search(r"https?:|\bimport\b|\bfetch\b|src=|@import|url\(", text)
    data = re.search(r"new Game\((\[.*\])\);", text)[1]
    assert json.loads(data) == json.loads(json.dumps([level.data() for level in LEVELS]))
