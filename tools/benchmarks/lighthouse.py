"""What Google's Lighthouse says of the site, page by page, as on a phone (slow network and processor) and on a desk.

    make site
    .venv/bin/python -m tools.benchmarks.lighthouse build/site --runs 3

It needs Debian's chromium and npm's lighthouse (`npm install --global lighthouse`). The pages come from this machine,
compressed and with ten minutes to be kept, as hosts of static pages send them. Its points for performance move by some
from run to run, and fall on a busy machine: each figure is the median of the runs.
"""

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.package_index import Quiet, served

PAGES = (
    "index.html",
    "notebooks/01_split_a_model.html",
    "notebooks/10_build_a_schedule.html",
    "labs/lab01/lab01_split_a_model.html",
    "docs/glossary.html",
    "game.html",
)
FORMS = {"phone": [], "desk": ["--preset=desktop"]}
CHROMIUM = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
TEXT = (".html", ".css", ".js", ".svg", ".json")


class Compressed(Quiet):
    """Files of a folder, texts compressed."""

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Cache-Control", "max-age=600")
        if path.suffix in TEXT:
            body = gzip.compress(body, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def points(address: str, form: list[str]) -> dict[str, int]:
    """Lighthouse's points out of 100, by category."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        command = ["lighthouse", address, *form, "--quiet", "--output=json", f"--output-path={told}"]
        subprocess.run([*command, f"--chrome-flags={CHROMIUM}"], check=True, capture_output=True)
        categories = json.loads(told.read_text())["categories"]
    return {name: round(100 * each["score"]) for name, each in categories.items() if each["score"] is not None}


def main(site: Path, runs: int) -> None:
    for program in ("lighthouse", "chromium"):
        if shutil.which(program) is None:
            sys.exit(f"lighthouse.py: there is no {program} on this machine's PATH")
    if not (site / PAGES[0]).is_file():
        sys.exit(f"lighthouse.py: {site} has no {PAGES[0]}: make site")
    with served(site, Compressed) as address:
        for page in PAGES:
            for name, form in FORMS.items():
                found = [points(f"{address}/{page}", form) for _ in range(runs)]
                medians = {category: statistics.median(one[category] for one in found) for category in found[0]}
                print(f"{page:40} {name:6}", *(f"{category} {at:g}" for category, at in medians.items()), sep="  ")


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="Lighthouse's points for pages of the site.")
    asked.add_argument("site", type=Path)
    asked.add_argument("--runs", type=int, default=3)
    given = asked.parse_args()
    main(given.site, given.runs)
