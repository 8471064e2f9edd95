"""The game in a notebook: the state goes to the view, and what is asked for comes back (anywidget)."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

from .board import Game

HERE = Path(__file__).parent


class GameView(anywidget.AnyWidget):
    """view.js shows `state`, and sends commands as messages."""

    _esm = HERE / "view.js"
    _css = HERE / "view.css"
    state = traitlets.Dict().tag(sync=True)


def widget_of(game: Game) -> GameView:
    """A widget that follows a game, and that the game follows."""
    view = GameView(state=game.state())

    def changed() -> None:
        view.state = game.state()

    game.changed = changed
    view.on_msg(lambda _, command, __: game.do(command))
    return view
