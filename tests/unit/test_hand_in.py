"""Handing in without a hub, with one that is down, and with a notebook that is not as it was run."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from utils.common.settings import GRADING, HAND_IN, PROGRESS, WIDGETS
from utils.exercises import check, class_service
from utils.exercises.class_service import TOKEN
from utils.exercises.hand_in import hand_in, hand_in_button, unsaved
from utils.exercises.raise_hand import lower_hand, raise_hand

RECEIPT = {
    "file": "lab01_a.ipynb",
    "at": "2026-11-27T06:36:06+00:00",
    "size": 13,
    "sha256": "ab" * 32,
    "late": "",
    "replaces": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "_last", {"lab01": {"ex1": True, "ex2": False}})
    for name in (GRADING, HAND_IN, TOKEN):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lab01_a.ipynb").write_text('{"cells": []}')
    return tmp_path


@pytest.fixture
def hub(folder, monkeypatch):
    """A stand-in for the service, which answers with `hub.answer`, and keeps what it was sent in `hub.heard`."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            heard = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.heard.append((self.path, self.headers["Authorization"], heard))
            code, body = server.answer
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    server.heard, server.answer = [], (200, json.dumps(RECEIPT).encode())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv(HAND_IN, f"http://127.0.0.1:{server.server_port}/services/class/")
    monkeypatch.setenv(TOKEN, "secret")
    yield server
    server.shutdown()
    server.server_close()


def test_a_hub_that_does_not_answer_may_have_taken_it(folder, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(HAND_IN, f"http://127.0.0.1:{silent.getsockname()[1]}/services/class/")
        monkeypatch.setenv(TOKEN, "secret")
        monkeypatch.setattr(class_service, "SECONDS", 0.2)
        told = hand_in("lab01")
    assert not told.done
    assert told.lines[0] == "Perhaps not handed in: the hub did not answer in time."


def test_without_a_hub_it_says_which_file_to_upload(folder):
    told = hand_in("lab01")
    assert not told.done
    assert repr(told) == (
        f"Not handed in: there is no hub here.\nSave, then upload this file: {folder / 'lab01_a.ipynb'}"
    )
    assert repr(hand_in_button("lab01")) == repr(told)


def test_without_a_hub_and_a_file_as_on_colab(folder):
    assert hand_in("lab07").lines[1] == "Save, then upload this notebook"


def test_the_grader_hands_nothing_in(hub, monkeypatch):
    monkeypatch.setenv(GRADING, "1")
    assert "the grader is running" in repr(hand_in_button("lab01"))
    assert hub.heard == []


def test_the_saved_file_goes_with_the_servers_token(hub):
    told = hand_in("lab01")
    assert told.done
    assert told.lines[0] == "Handed in: lab01, 2026-11-27 06:36:06 UTC"
    assert "13 bytes, SHA-256 abababababababab" in told.lines[1]
    sent = {"file": "lab01_a.ipynb", "notebook": '{"cells": []}', "said": {"ex1": "passed", "ex2": "not yet"}}
    assert hub.heard == [("/services/class/hand_in/lab01", "token secret", sent)]


def test_late_and_replaced_are_told(hub):
    answer = {**RECEIPT, "late": "0 h 3 min after the deadline", "replaces": "2026-11-27T06:30:00+00:00"}
    hub.answer = (200, json.dumps(answer).encode())
    told = hand_in("lab01")
    assert told.lines[0].endswith("UTC, 0 h 3 min after the deadline")
    assert told.lines[2] == "It replaces the one handed in at 2026-11-27 06:30:00 UTC."


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (400, b'{"problem": "this is not a notebook"}', "Not handed in: this is not a notebook."),
        (507, b'{"problem": "it could not be kept"}', "Not handed in: it could not be kept."),
        (403, b"<html>", "Not handed in: the hub answered 403 Forbidden."),
        (200, b"<html>", "Not handed in: the hub's answer cannot be read."),
    ],
)
def test_a_refusal_is_one_line(hub, code, body, said):
    hub.answer = (code, body)
    told = hand_in("lab01")
    assert (told.done, told.lines[0]) == (False, said)


def test_a_hub_that_is_down_is_one_line(hub, monkeypatch):
    monkeypatch.setenv(HAND_IN, "http://127.0.0.1:9/services/class/")
    told = hand_in("lab01")
    assert not told.done
    assert told.lines[1] == "Try again. If it still fails, tell your instructor."


def test_which_of_several_has_to_be_said(hub, folder):
    (folder / "lab01_b.ipynb").write_text('{"cells": []}')
    assert "Choose one: hand_in('lab01', 'lab01_a.ipynb')" in hand_in("lab01").lines[1]
    assert hand_in("lab01", "lab01_b.ipynb").done
    assert "There is no file c.ipynb" in hand_in("lab01", "c.ipynb").lines[1]
    assert "has no notebook for 'lab02'" in hand_in("lab02").lines[1]


def test_what_was_run_and_not_saved_is_named():
    ran = ["def f():\n    return 1", "def f():\n    return 2", "class A:\n    pass\n", "%time f()", "x = 1", ""]
    saved = [{"source": ["def f():\n", "    return 1"]}, {"source": "class A:\n    pass"}]
    assert unsaved(ran, json.dumps({"cells": saved})) == ["f"]
    assert unsaved(ran, json.dumps({"cells": [{"source": ran[1]}, *saved]})) == []
    assert unsaved(ran, '{"cells": 3}') == []


def test_the_button_hands_in_when_it_is_clicked_and_not_before(hub, monkeypatch):
    monkeypatch.delenv(WIDGETS, raising=False)
    button = hand_in_button("lab01").children[0]
    assert button.description == "Hand in lab01"
    assert hub.heard == []
    button.click()
    assert len(hub.heard) == 1


def test_a_raised_hand_says_how_many_are_before(hub, monkeypatch):
    monkeypatch.setenv(PROGRESS, "1")
    for before, said in (
        (0, "You are the first."),
        (1, "1 student is ahead of you."),
        (2, "2 students are ahead of you."),
    ):
        hub.answer = 200, json.dumps({"before": before}).encode()
        assert repr(raise_hand("lab01 ex2")) == f"Your hand is up.\n{said} Call lower_hand() to take it down."
    assert hub.heard[0] == ("/services/class/hand", "token secret", {"up": True, "at": "lab01 ex2"})
    assert lower_hand().lines == ("Your hand is down.",)
    hub.answer = 404, b""
    assert raise_hand().lines[0].startswith("Your instructor was not told: the hub answered 404")


def test_without_a_class_no_hand_goes_up(hub, monkeypatch):
    monkeypatch.delenv(PROGRESS, raising=False)
    assert repr(raise_hand()) == (
        "Your hand is not up.\nYour instructor would not see it: no class runs here, or the page that shows it is off."
    )
    assert hub.heard == []
