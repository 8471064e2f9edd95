"""How Sphinx makes the site. tools/build_site.py puts the pages where this finds them, and calls it."""

from html import escape
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

from utils.course.badges import BRANCH, repository

# One file with its fonts, which lies beside the pages: a page asks no other host for anything.
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"

project = "One network, several GPUs"
author = "the course's authors"
copyright = "MIT licence"
extensions = ["myst_nb"]
exclude_patterns = ["_build", "**/explained/**", "utils/**"]
nb_execution_mode = "off"
nb_mime_priority_overrides = [("*", "image/png", 0), ("*", "text/html", 10), ("*", "text/markdown", 20)]
nb_code_prompt_hide = "Hide the result"
nb_code_prompt_show = "You have predicted? Show the result"
myst_enable_extensions = ["dollarmath", "amsmath", "strikethrough"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough", "misc.highlighting_failure", "mystnb.unknown_mime_type"]
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # as light or dark as the reader's computer
html_css_files = ["course.css"]
html_js_files = ["course.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_persistent": [],  # the search stands at the side
    "use_download_button": True,
    "use_fullscreen_button": False,
    "show_navbar_depth": 1,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
if name := repository():
    html_theme_options |= {
        "repository_url": f"https://github.com/{name}",
        "repository_branch": BRANCH,
        "launch_buttons": {
            "colab_url": "https://colab.research.google.com",
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        },
    }


def setup(app) -> None:
    app.connect("html-page-context", describe)


def describe(app, page: str, template: str, context: dict, document) -> None:
    """Tell search engines what a page is about: its first paragraph."""
    if document is not None and (first := next(document.findall(nodes.paragraph), None)) is not None:
        words = escape(" ".join(first.astext().split())[:300], quote=True)
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{words}" />'
