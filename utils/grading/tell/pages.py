"""Pages: templates (templates/*.html) filled in, so that whatever was handed in is text.

Each value that a template shows is made harmless, bounded and escaped, whatever the template says: only Markup is taken
as HTML, and only templates and `data_url` make it. A template may ask for less text: {{ grade.note|clean(600) }}.
"""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from utils.grading.grade import Grade
from utils.grading.run.submissions import file_stem
from utils.grading.tell.text import clean, line
from utils.observe.plots import Picture


def render(template: str, **values: object) -> str:
    """The whole file. The same values give the same bytes."""
    return TEMPLATES.get_template(template).render(values)


def changed() -> float:
    """When a template, or what fills it in, was last changed, in seconds: a page older than this is an old one."""
    here = Path(__file__).parent
    return max(path.stat().st_mtime for path in (*here.glob("*.py"), *here.glob("templates/*")))


def _harmless(value: object) -> object:
    return value if isinstance(value, Markup | int | float) else clean(value)


def _data_url(picture: Picture) -> Markup:
    """The picture itself, as an address: letters, digits and + / = only."""
    return Markup(f"data:image/png;base64,{base64.b64encode(picture.png()).decode()}")


def _feedback(grade: Grade) -> str:
    """Where the student's page is, seen from the page about the class."""
    return f"feedback/{quote(file_stem(grade.student) + '.html')}"


TEMPLATES = Environment(
    loader=PackageLoader("utils.grading.tell"),
    autoescape=True,
    finalize=_harmless,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"clean": clean, "line": line, "data_url": _data_url, "feedback": _feedback}
