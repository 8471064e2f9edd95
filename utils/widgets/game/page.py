"""The game as one HTML file, without Python, without a server, without a network."""

from __future__ import annotations

import json
from pathlib import Path

from .levels import LEVELS

HERE = Path(__file__).parent
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="A game: put the moves of several GPUs in an order in which none of them waits.">
<link rel="icon" href="data:,">
<title>Build a schedule</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 12px; background: Canvas; color: CanvasText; font-family: system-ui, sans-serif; }}
{css}</style>
<h1>Build a schedule</h1>
<p>A model lies on several GPUs, one part on each, and a batch goes through them in micro-batches. Which rank does what
when? Whatever waits is lost. Choose a rank, then an action.</p>
<main id="game"></main>
<script type="module">
{engine}
{view}
const game = new Game({levels});
const show = gameView(document.getElementById("game"), (command) => {{
  game.do(command);
  show(game.state());
}});
Object.assign(window, {{ Game, game, show }});
show(game.state());
</script>
</html>
"""


def page() -> str:
    """The whole page."""
    levels = json.dumps([level.data() for level in LEVELS]).replace("</", "<\\/")
    return PAGE.format(css=_text("view.css"), engine=_text("engine.js"), view=_text("view.js"), levels=levels)


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
