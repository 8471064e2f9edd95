"""A student of a class's hub, as their browser would talk to it: the login page, cookies, REST and websockets."""

from __future__ import annotations

import contextlib
import html
import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import requests
import websocket


@dataclass
class Ran:
    """One cell: what it printed and showed as text, and the name of its error, if any."""

    text: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass
class HubStudent:
    """One login. `address` is the hub's, without a slash at its end."""

    address: str
    login: str
    web: requests.Session = field(default_factory=requests.Session)
    socket: websocket.WebSocket | None = None
    kernel: str = ""

    def log_in(self, password: str) -> bool:
        page = f"{self.address}/hub/login"
        self.web.get(page)
        answer = self.web.post(page, data={"username": self.login, "password": password, "_xsrf": self._xsrf("/hub/")})
        return answer.status_code == 200 and "/hub/login" not in answer.url

    def start(self, within: float = 300) -> float:
        """Start the server and be let in, as the button and the page that follows do. Returns the seconds it took."""
        began = time.monotonic()
        page = self.web.get(f"{self.address}/hub/spawn")
        while time.monotonic() - began < within:
            for _ in self._progress(page.text, within):
                pass
            page = self.web.get(f"{self.address}/user/{self.login}/lab")  # makes the cookies of the server
            answer = self.web.get(f"{self.address}/user/{self.login}/api/status")
            if answer.status_code == 200 and answer.headers.get("Content-Type", "").startswith("application/json"):
                return time.monotonic() - began
            time.sleep(0.2)
        raise TimeoutError(f"{self.login}'s server did not start: {answer.status_code} {answer.url}")

    def messages_while_waiting(self) -> Iterator[str]:
        """What the page of a student says whose server is not there yet."""
        yield from self._progress(self.web.get(f"{self.address}/hub/spawn").text, 60)

    def _progress(self, page: str, within: float) -> Iterator[str]:
        """One request that lasts until the server is there, or has failed."""
        if told := re.search(r'EventSource\("([^"]+)"\)', page):
            with self.web.get(f"{self.address}{html.unescape(told[1])}", stream=True, timeout=within) as progress:
                for line in progress.iter_lines():
                    if line.startswith(b"data: "):
                        yield json.loads(line.removeprefix(b"data: "))["message"]

    def api(self, method: str, path: str, **options) -> requests.Response:
        """A call of the student's own server."""
        mine = f"/user/{self.login}/"
        headers = {"X-XSRFToken": self._xsrf(mine)}
        return self.web.request(method, f"{self.address}{mine}api/{path}", headers=headers, **options)

    def open(self, notebook: str) -> dict:
        """Open a notebook with a kernel, as JupyterLab does. Returns the notebook."""
        session = self.api(
            "POST",
            "sessions",
            json={"path": notebook, "name": "", "type": "notebook", "kernel": {"name": "python3"}},
        )
        session.raise_for_status()
        self.connect(session.json()["kernel"]["id"])
        return self.read(notebook)

    def connect(self, kernel: str) -> None:
        """Talk to a kernel that runs."""
        self.kernel = kernel
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.web.cookies if self._sent_to(c.path))
        address = self.address.replace("http", "ws", 1)
        self.socket = websocket.create_connection(
            f"{address}/user/{self.login}/api/kernels/{self.kernel}/channels", cookie=cookies, timeout=300
        )

    def wait_for_a_new_kernel(self, within: float = 120) -> None:
        """Until Jupyter starts one in place of one that died, and it is heard."""
        deadline = time.monotonic() + within
        while self._hear(deadline)["content"].get("execution_state") != "restarting":
            pass
        self._connect_until_heard()

    def restart(self) -> None:
        """As the button with the round arrow does, until the new kernel is heard."""
        self.api("POST", f"kernels/{self.kernel}/restart").raise_for_status()
        self._connect_until_heard()

    def _connect_until_heard(self) -> None:
        """Talk to a kernel that was restarted.

        Jupyter takes it for busy if the old one was (jupyter_server's nudge), and then doesn't wait until this
        connection hears it: the first cell's output would be lost now and then.
        """
        self.connect(self.kernel)
        for _ in range(60):
            number, deadline = self._ask("kernel_info_request", {}), time.monotonic() + 2
            with contextlib.suppress(TimeoutError):
                while not self._is_idle(self._hear(deadline), number):
                    pass
                return
        raise TimeoutError(f"{self.login}'s kernel is not heard after its restart")

    def _hear(self, deadline: float) -> dict:
        """The next message. TimeoutError at the `deadline`, a time of time.monotonic(), also where the server pings."""
        assert self.socket is not None
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(websocket.WebSocketTimeoutException):
                kind, told = self.socket.recv_data(control_frame=True)
                if kind == websocket.ABNF.OPCODE_CLOSE:
                    raise ConnectionError(f"{self.login}'s server closed the connection to the kernel")
                if kind in (websocket.ABNF.OPCODE_TEXT, websocket.ABNF.OPCODE_BINARY):
                    return json.loads(told)
        raise TimeoutError(f"{self.login} hears nothing from the kernel")

    def interrupt(self) -> None:
        """As the button with the square does."""
        self.api("POST", f"kernels/{self.kernel}/interrupt").raise_for_status()

    def end_kernel(self) -> None:
        """As the student does who shuts a notebook down before opening the next."""
        if self.socket is not None:
            self.socket.close()
        self.api("DELETE", f"kernels/{self.kernel}").raise_for_status()

    def read(self, path: str) -> dict:
        answer = self.api("GET", f"contents/{path}")
        answer.raise_for_status()
        return answer.json()["content"]

    def save(self, path: str, notebook: dict) -> None:
        self.api("PUT", f"contents/{path}", json={"type": "notebook", "content": notebook}).raise_for_status()

    def begin(self, code: str) -> str:
        """Run a cell, and wait for nothing. Returns the number of the message."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        return self._ask("execute_request", content)

    def _ask(self, kind: str, content: dict) -> str:
        assert self.socket is not None
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": kind, "username": "", "session": number, "version": "5.3"}
        whole = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.socket.send(json.dumps(whole))
        return number

    @staticmethod
    def _is_idle(heard: dict, number: str) -> bool:
        """The kernel says that it has done all of this message."""
        return (
            heard["parent_header"].get("msg_id") == number
            and heard["msg_type"] == "status"
            and heard["content"]["execution_state"] == "idle"
        )

    def run(self, code: str, within: float = 900) -> Ran:
        """Run a cell, and wait until the kernel has said all of it. TimeoutError where that takes longer."""
        began, number = time.monotonic(), self.begin(code)
        ran, replied, idle = Ran(), False, False
        while not (replied and idle):
            heard = self._hear(began + within)
            if heard["parent_header"].get("msg_id") != number:
                continue
            kind, told = heard["msg_type"], heard["content"]
            replied |= kind == "execute_reply"
            idle |= self._is_idle(heard, number)
            if kind == "stream":
                ran.text += told["text"]
            elif kind in ("execute_result", "display_data"):
                ran.text += told["data"].get("text/plain", "") + "\n"
            elif kind == "error":
                ran.error = f"{told['ename']}: {told['evalue']}"
        ran.seconds = time.monotonic() - began
        return ran

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.web.close()

    def _xsrf(self, path: str) -> str:
        found = [c for c in self.web.cookies if c.name == "_xsrf" and path.startswith(c.path)]
        return (max(found, key=lambda c: len(c.path)).value or "") if found else ""

    def _sent_to(self, path: str) -> bool:
        return f"/user/{self.login}/".startswith(path)
