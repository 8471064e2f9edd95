"""The service of a class: takes hand-ins, and shows each student their own and an instructor everybody's.

The hub starts it (configure.py). Who asks is what the hub says of the token that came with the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from datetime import UTC
from html import escape
from pathlib import Path
from urllib.parse import quote, urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from jupyterhub.utils import url_path_join
from tornado.web import Application, HTTPError, RequestHandler, authenticated

from utils.common.errors import Problem
from utils.grading.tell.misconceptions import by_likeness
from utils.hub import class_folder, hand_ins, results
from utils.hub.hands import Hands
from utils.hub.live_page import live_page
from utils.hub.priority import serve_first
from utils.hub.progress import Progress

SECONDS_BETWEEN = 5  # the live page looks again

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root {{ color-scheme: light dark }} body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em;
padding: 0 1em }} td, th {{ text-align: left; padding: .3em 1em .3em 0; vertical-align: top }}
.late {{ color: #c2410c }} .large {{ font-size: 1.6em }} .passed {{ color: #2e8b57 }} .trying {{ color: #c2410c }}
@media (prefers-color-scheme: dark) {{ .late, .trying {{ color: #fb923c }} .passed {{ color: #4ade80 }} }}
.large td {{ white-space: nowrap }}
@media (max-width: 40em) {{ .large {{ font-size: 1.2em }} .facts, .facts * {{ display: block; padding: 0 }}
.facts tr {{ margin: 0 0 1em }} .facts tr:first-child {{ display: none }} .facts td:first-child::after {{
content: "x" }} .facts td:first-child, .facts td:nth-child(2) {{ display: inline; font-weight: bold }}
.facts td:nth-child(2)::before {{ content: " " }} }}
</style><h1>{title}</h1>{body}</html>"""


class LastSettings:
    """The class as its folder says it now. What is wrong there while the hub runs changes nothing."""

    def __init__(self, folder: Path):
        self._last = class_folder.read_class(folder)

    def now(self) -> class_folder.ClassFolder:
        with contextlib.suppress(Problem):
            self._last = class_folder.read_class(self._last.path)
        return self._last


class _Asked(HubOAuthenticated, RequestHandler):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A request, with the class that it is about."""

    def initialize(self, settings: LastSettings, progress: Progress, hands: Hands) -> None:
        self.of, self.progress, self.hands = settings.now(), progress, hands

    @property
    def login(self) -> str:
        return self.current_user["name"]


class TakesHandIn(_Asked):
    """POST {"file": name, "notebook": text, "said": {...}}: a receipt, or one line that says why there is none."""

    def check_xsrf_cookie(self) -> None:
        """A request has a token in its header, which no other page can send."""
        if not self.request.headers.get("Authorization", "").startswith("token "):
            raise HTTPError(403, reason="a hand-in comes with the token of the student's server")

    @authenticated
    def post(self, lab: str) -> None:
        self.set_header("Content-Type", "application/json")
        try:
            told = json.loads(self.request.body)
            notebook = told["notebook"].encode()
            receipt = hand_ins.store(self.of, self.login, lab, str(told.get("file")), notebook, told.get("said"))
        except Problem as problem:
            self.set_status(400)
            self.write({"problem": str(problem)})
        except (ValueError, KeyError, TypeError, AttributeError):
            self.set_status(400)
            self.write({"problem": "this is no hand-in"})
        except OSError as error:
            self.set_status(507)
            self.write({"problem": f"it could not be kept ({error.strerror}): tell your instructor, and try again"})
        else:
            self.write(json.dumps(vars(receipt)))


class TakesNews(_Asked):
    """POST what the instructor's page shows: what a check said, a raised hand, a kernel that died.

    Refused where the class has no such page.
    """

    check_xsrf_cookie = TakesHandIn.check_xsrf_cookie

    @authenticated
    def post(self, kind: str) -> None:
        if not self.of.live:
            raise HTTPError(404)
        try:
            self.write(getattr(self, f"_{kind}")(json.loads(self.request.body)))
        except (ValueError, KeyError, TypeError):
            raise HTTPError(400) from None

    def _progress(self, told: dict) -> dict:
        lab, exercise, claim, alike = (str(told[name]) for name in ("lab", "exercise", "claim", "alike"))
        thoughts = by_likeness(lab, exercise, claim, alike) if hand_ins.LAB.fullmatch(lab) else []
        self.progress.add(self.login, lab[:20], exercise[:60], told["passed"] is True, claim, " Or: ".join(thoughts))
        return {}

    def _hand(self, told: dict) -> dict:
        if told["up"] is True:
            return {"before": self.hands.put_up(self.login, str(told["at"]))}
        self.hands.put_down(self.login)
        return {}

    def _died(self, told: dict) -> dict:
        self.progress.died(self.login, int(told["code"]))
        return {}


class ShowsProgress(_Asked):
    """The instructor's page: who asked for help, numbers that a room can see, and names below a fold."""

    def _require_an_instructor(self) -> None:
        if self.login not in self.of.instructors:
            raise HTTPError(403, reason="this page is the instructor's")

    @authenticated
    def get(self) -> None:
        self._require_an_instructor()
        self.set_header("Refresh", str(SECONDS_BETWEEN))
        body = live_page(self.of, self.progress, self.hands, self.xsrf_form_html())
        self.write(PAGE.format(title="The class now", body=body))

    @authenticated
    def post(self) -> None:
        """The button beside a raised hand."""
        self._require_an_instructor()
        self.hands.put_down(self.get_body_argument("student"))
        self.redirect(self.request.path)


class ShowsResult(_Asked):
    """A student's own page; an instructor's `?student=` asks for anybody's."""

    @authenticated
    def get(self, lab: str) -> None:
        student = self.login
        if student in self.of.instructors:
            student = self.get_argument("student", student)
        page = results.given_back(self.of, student, lab)
        if not page:
            raise HTTPError(404, reason="nothing has been given back")
        # The page has a policy of its own. This one holds whatever is in it: no script, and nothing is loaded.
        self.set_header(
            "Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        )
        self.write(page)


class ShowsHandIns(_Asked):
    @authenticated
    def get(self) -> None:
        everybody = self.login in self.of.instructors
        shown = self.of.students if everybody else (self.login,)
        rows = []
        for student in shown:
            for lab, receipt in hand_ins.last_receipts(self.of, student).items():
                said = ", ".join(f"{name} {word}" for name, word in receipt.said.items()) or "not asked"
                late = f' <span class="late">{escape(receipt.late)}</span>' if receipt.late else ""
                if results.given_back(self.of, student, lab):
                    asked = f"?student={quote(student)}" if everybody else ""
                    late += f' <a href="result/{lab}{asked}">result</a>'
                cells = [student, lab, receipt.at.replace("T", " "), receipt.file, receipt.sha256[:12], said]
                head, *others = (f"<td>{escape(cell)}</td>" for cell in cells)
                rows.append(f"<tr>{head}{''.join(others)}<td>{late}</td></tr>")
        heads = "".join(
            f"<th>{head}</th>"
            for head in ("student", "lab", "time (UTC)", "file", "SHA-256", "check said, in the student's kernel", "")
        )
        body = f"<table><tr>{heads}</tr>{''.join(rows)}</table>" if rows else "<p>Nothing yet.</p>"
        due = [f"{lab} is due {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for lab, at in sorted(self.of.deadlines.items())]
        above = f"<p>{escape('; '.join(due))}.</p>" if due else ""
        if everybody and self.of.live:
            above += '<p><a href="live">The class now</a></p>'
        self.write(PAGE.format(title="Handed in", body=above + body))


async def main() -> None:
    settings, prefix = LastSettings(Path(sys.argv[1])), os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    with_class = {"settings": settings, "progress": Progress(), "hands": Hands()}
    app = Application(
        [
            (prefix, ShowsHandIns, with_class),
            (url_path_join(prefix, r"hand_in/(\w+)"), TakesHandIn, with_class),
            (url_path_join(prefix, "(progress|hand|died)"), TakesNews, with_class),
            (url_path_join(prefix, "live"), ShowsProgress, with_class),
            (url_path_join(prefix, r"result/(\w+)"), ShowsResult, with_class),
            (url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler),
        ],
        cookie_secret=os.urandom(32),
    )
    at = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    # JSON writes some characters as six.
    app.listen(at.port or 0, at.hostname or "127.0.0.1", max_buffer_size=2 * hand_ins.LARGEST + 2**20)
    await asyncio.Event().wait()


if __name__ == "__main__":
    serve_first()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends it, and without a traceback
    asyncio.run(main())
