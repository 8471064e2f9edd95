"""The site: built as it is published (with the outputs that notebooks have), no link leads nowhere, readable by all.

axe is Deque's checker of accessibility, the real one; what it calls serious or critical is a failure.
"""

import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH
from utils.common.cell_tags import PREDICTED

READ = (
    "index.html",
    "game.html",
    "notebooks/01_split_a_model.html",
    "notebooks/10_build_a_schedule.html",
    "labs/lab01/lab01_split_a_model.html",
    "docs/glossary.html",
    "docs/simgpu.html",
    "docs/times.html",
)
SERIOUS = ("serious", "critical")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the browser tests use Debian's chromium: run them on Linux"
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, ROOT / "tools" / "build_site.py", "--as-stored", "--into", site]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


@pytest.fixture(scope="module")
def browser(site):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


class Links(HTMLParser):
    """Where a page leads, what it loads, and the places in it that have names."""

    def __init__(self, path: Path):
        super().__init__()
        self.found, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names |= {given[name] for name in ("id", "name") if given.get(name)}
        self.found += [given[name] for name in ("href", "src") if given.get(name)]


links = cache(Links)


def test_every_lesson_and_lab_is_there_and_nothing_for_instructors(site):
    for folder in ("notebooks", "labs"):
        for notebook in (ROOT / folder).rglob("*.ipynb"):
            if ".ipynb_checkpoints" not in notebook.parts:
                assert (site / notebook.relative_to(ROOT)).with_suffix(".html").is_file(), notebook
    pages = "\n".join(path.read_text(encoding="utf-8") for path in site.rglob("*.html"))
    assert "BEGIN HIDDEN TESTS" not in pages
    assert "BEGIN SOLUTION" not in pages
    assert not list(site.rglob("*misconceptions*"))


def broken_links(site):
    lost = []
    for page in set(site.rglob("*.html")) - set(site.rglob("_static/**/*.html")):  # those are the theme's templates
        for link in links(page).found:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists():
                lost.append(f"{page.relative_to(site)}: {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in links(target).names:
                lost.append(f"{page.relative_to(site)}: {link} (no such place there)")
    return sorted(lost)


def test_no_link_leads_nowhere(site):
    assert broken_links(site) == []


def in_both_schemes():
    """Each page light and dark: of four in a row, `make test` has the first light and the third dark."""
    for number, page in enumerate(READ):
        for scheme in ("light", "dark"):
            yield pytest.param(
                page, scheme, marks=[] if scheme == {0: "light", 2: "dark"}.get(number % 4) else THOROUGH
            )


@pytest.mark.parametrize(("page", "scheme"), in_both_schemes())
def test_axe_finds_nothing_serious(browser, site, page, scheme):
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto((site / page).as_uri())
    found = [
        f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:200] for node in one['nodes']][:3]}"
        for one in Axe().run(tab).response["violations"]
        if one["impact"] in SERIOUS
    ]
    context.close()
    assert found == []


@pytest.mark.parametrize("page", READ)
def test_on_a_phone_no_page_is_wider_than_the_screen(browser, site, page):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    tab = context.new_page()
    tab.goto((site / page).as_uri())
    width = tab.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert width <= 360


def test_pictures_have_words(site):
    for page in (site / "notebooks").glob("[0-9]*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'alt="../_images/' not in text, page.name
        assert 'alt="_images/' not in text, page.name


def test_no_page_waits_for_scripts_that_it_does_not_need_at_once(site):
    for page in set(READ) - {"game.html"}:
        text = (site / page).read_text(encoding="utf-8")
        waited_for = re.findall(r'<script src="[^"?]*/([^"?]*)', text)
        assert waited_for == ["documentation_options.js"], page
        assert "searchindex" not in text
        assert '<meta name="description" content="' in text


def test_icons_are_drawn_and_a_search_finds(browser, site):
    tab = browser.new_page()
    tab.goto((site / "search.html").as_uri() + "?q=bubble")
    tab.wait_for_selector("#search-results a[href*='pipeline']")
    icon = "getComputedStyle(document.querySelector('i.fa-magnifying-glass'), '::before')"
    assert tab.evaluate(f"{icon}.content") not in ("none", "normal", "")
    assert tab.evaluate(f"document.fonts.ready.then(() => document.fonts.check(`900 16px ${{{icon}.fontFamily}}`))")
    tab.close()


@pytest.mark.parametrize(
    "most", [1, pytest.param(None, marks=THOROUGH)], ids=["one with formulas", "all with formulas"]
)
def test_no_page_asks_another_host_for_anything(browser, site, most):
    context, asked = browser.new_context(), []
    context.on("request", lambda request: asked.append(request.url))
    tab = context.new_page()
    pages = sorted(site.rglob("*.html"))
    with_formulas = [page for page in pages if "math notranslate" in page.read_text(encoding="utf-8")][:most]
    assert with_formulas
    for page in {*(site / page for page in READ), *with_formulas}:
        tab.goto(page.as_uri())
        if page in with_formulas:
            tab.wait_for_selector("mjx-container svg")
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_picture_that_moves_can_be_stopped_by_keyboard(browser, site):
    tab = browser.new_page()
    tab.goto((site / "index.html").as_uri())
    state = "getComputedStyle(document.querySelector('.moving rect')).animationPlayState"
    assert tab.evaluate(state) == "running"
    tab.get_by_role("button", name="Stop the picture").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(state) == "paused"
    tab.get_by_role("button", name="Go on").press("Enter")
    assert tab.evaluate(state) == "running"
    tab.close()
    calm = browser.new_context(reduced_motion="reduce")
    tab = calm.new_page()
    tab.goto((site / "index.html").as_uri())
    assert tab.evaluate("getComputedStyle(document.querySelector('.moving rect')).animationName") == "none"
    assert not tab.get_by_role("button", name="Stop the picture").is_visible()
    calm.close()


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "there.html").write_text('<p id="here">')
    page = tmp_path / "page.html"
    page.write_text('<a href="there.html#here">1</a> <a href="there.html#gone">2</a> <img src="lost.png">')
    assert broken_links(tmp_path) == ["page.html: lost.png", "page.html: there.html#gone (no such place there)"]


def test_what_was_to_be_predicted_is_folded_until_asked_for(browser, site):
    lesson = nbformat.read(ROOT / "notebooks" / "01_split_a_model.ipynb", as_version=4)
    tagged = [cell for cell in lesson.cells if PREDICTED in cell.metadata.get("tags", []) and cell.get("outputs")]
    tab = browser.new_page()
    tab.goto((site / "notebooks" / "01_split_a_model.html").as_uri())
    folded = tab.locator("details:has(.cell_output)")
    assert folded.count() == len(tagged) > 0
    for number in range(len(tagged)):
        output = folded.nth(number).locator(".cell_output").first
        assert not output.is_visible()
        folded.nth(number).locator("summary").first.press("Enter")
        assert output.is_visible()
    tab.close()


def test_on_paper_results_are_there_and_no_line_is_cut_off(browser, site):
    tab = browser.new_page(viewport={"width": 720, "height": 1000})
    tab.goto((site / "notebooks" / "05_watch_the_idle_gpu.html").as_uri())
    folded = "document.querySelectorAll('details.hide:not([open])').length"
    before = tab.evaluate(folded)
    assert before
    tab.evaluate(f"addEventListener('beforeprint', () => window.onPaper = {folded})")
    tab.pdf()
    assert tab.evaluate("window.onPaper") == 0
    assert tab.evaluate(folded) == before
    tab.emulate_media(media="print")
    cut_off = "[...document.querySelectorAll('.bd-content pre')].filter(p => p.scrollWidth > p.clientWidth + 1).length"
    assert tab.evaluate(cut_off) == 0
    tab.close()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_one_page_is_one_page_on_paper(browser, site, paper):
    tab = browser.new_page()
    tab.goto((site / "docs" / "one_page.html").as_uri())
    printed = tab.pdf(format=paper, margin=dict.fromkeys(("top", "right", "bottom", "left"), "10mm"))
    assert len(re.findall(rb"/Type ?/Page\b", printed)) == 1
    tab.close()
