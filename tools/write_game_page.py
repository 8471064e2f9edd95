"""Writes the game of schedules as one HTML page: `python tools/write_game_page.py build/game.html`.

It can be opened as a file, put on any web server, or attached to a mail; it loads nothing.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from utils.widgets.game.page import page

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/write_game_page.py build/game.html")
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")
