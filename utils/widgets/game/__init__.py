"""A game: build the schedule of a pipeline, action by action, on a board of ranks and time.

    game = schedule_game(level=1)
    game                                    # in a notebook: a board for keys, mouse and fingers
    game.move("0 F", "0 F1", "1 F0.0")      # anywhere; print(game.text()) draws the board
    run(game.schedule, stages, inputs, targets, loss, devices)      # utils.schedules.run: on real tensors

`levels` has the tasks, with par (a published schedule) and the best known (best.json, found by `search`). `board` has
the rules of the game over the engine in utils.schedules, and `widget` shows it. `page` writes the game as one HTML file
that needs no Python: there, engine.js stands for `board` and for what it needs of utils.schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .board import Game


def schedule_game(level: int = 1) -> Game:
    """The game at a level, from 1 on. Make it the last line of its cell, to show it. ValueError for no such level."""
    from .board import Game  # it needs utils.schedules, and that needs PyTorch

    return Game(level)
