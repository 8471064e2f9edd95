"""A class's hub, started as an instructor starts it, for tests and measurements."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import requests

from utils.hub import class_folder, warm_service

from .hub_student import HubStudent
from .notebooks import ROOT


class AHub:
    """`course hub` on a folder, with the students given, at ports that are free. `settings` go into class.toml.

    `configuration` goes to the end of jupyterhub_config.py, where an instructor's own lines would.
    """

    def __init__(self, folder: Path, students: list[str], configuration: str = "", **settings):
        self.folder = folder / "class"
        listed = folder / "students.txt"
        listed.write_text("\n".join(students))
        self._course("--students", str(listed), "--make-only")
        path = self.folder / class_folder.SETTINGS
        text = path.read_text()
        for name, value in {"port": free_ports(4), **settings}.items():
            kept = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
            text = "\n".join([f"{name} = {value}", *kept])
        path.write_text(text)
        with (self.folder / class_folder.CONFIG).open("a") as config:
            config.write(configuration)
        self.of = class_folder.read_class(self.folder)
        self.address = f"http://127.0.0.1:{self.of.port}"
        self.process: subprocess.Popen | None = None

    def _course(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "utils.course", "hub", str(self.folder), *arguments]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    def start(self, within: float = 240) -> None:
        command = [sys.executable, "-m", "utils.course", "hub", str(self.folder)]
        with (self.folder / "log.txt").open("a") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + within
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.answers() and self._service_is_there():
                return
            time.sleep(0.1)
        raise TimeoutError(f"the hub did not start:\n{(self.folder / 'log.txt').read_text()[-3000:]}")

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.address}/hub/health", timeout=5).ok
        except requests.RequestException:
            return False

    def _service_is_there(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.of.port + 3)) == 0

    def student(self, login: str) -> HubStudent:
        """One that is logged in, with a server that runs."""
        student = HubStudent(self.address, login)
        assert student.log_in(self.of.password), login
        student.start()
        return student

    def complaints(self) -> list[str]:
        """Lines of its log that are errors, or say that a server did not start."""
        lines = (self.folder / "log.txt").read_text().splitlines()
        return [line[:240] for line in lines if line.startswith("[E ") or "failed to" in line or "never" in line]

    def kill(self) -> None:
        """As a machine without memory would: the hub's own process, and nothing else."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> list[str]:
        """As Ctrl+C does. The command lines of what is left half a minute later, which is killed."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        deadline = time.monotonic() + 30
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        told = [str(process) for process in left]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return told

    def warm_process(self) -> psutil.Process:
        """Who kernels are forked from: below the service, and no supervisor of a kernel."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if warm_service.LOAD in process.cmdline() and "utils.hub.warm_service" in process.parent().cmdline():
                    return process
        raise AssertionError("there is no warm process")

    def processes(self) -> list[psutil.Process]:
        """All that has the class's folder or a port of its hub's in its words or its environment, and what is below."""
        own = (str(self.folder), f":{self.of.port + 1}/")
        found = []
        for process in psutil.process_iter():
            try:
                told = process.environ()
                words = [*process.cmdline(), told.get("HOME", ""), told.get("JUPYTERHUB_API_URL", "")]
                if process.pid != os.getpid() and any(one in word for word in words for one in own):
                    found += [process, *process.children(recursive=True)]
            except psutil.Error:
                continue
        return list(dict.fromkeys(found))


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free. Below those that Linux gives to whoever asks for any."""
    for port in random.SystemRandom().sample(range(20_000, 32_000, count), 100):
        held = [socket.socket() for _ in range(count)]
        try:
            for number, each in enumerate(held, port):
                each.bind(("127.0.0.1", number))
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
        return port
    raise RuntimeError("no ports are free")
