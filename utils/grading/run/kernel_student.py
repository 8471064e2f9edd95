"""A student's notebook, run in a kernel of its own and asked by probes.

The grader sends text and reads text. It believes no reply that the observer inside (observer.py) has not signed.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b, shake_256
from hmac import compare_digest

from utils.exercises.facts import StudentError, wire
from utils.exercises.facts.student import probe_source
from utils.grading.run.kernel import KernelDied, KernelProcess, KernelSlow, Limits, sanitized
from utils.processes.forking import ForkServerEnded

MOST_FLAGS = 20
LOOKED = "+"  # behind the number of a look: no cell has run since the last one
TRIES = 2  # with a fork server that ends; after that each kernel is a fresh process


class KernelStudent:
    """A student's notebook, run cell by cell in its own kernel. Use it in a `with`.

    After a crash or a time-out the kernel is started again and the notebook replayed without the cell that
    caused it, so that each costs only the exercise it belongs to.
    """

    def __init__(self, cells: list[str], limits: Limits | None = None):
        self.cells = cells
        self.limits = limits or Limits()
        self.devices = ["simgpu:0", "simgpu:1"]
        self.errors: dict[int, str] = {}  # cell number from 1 -> what it raised
        self.worst = "ok"  # ok, error, timeout, crash
        self.flags: list[str] = []  # what a person should look at
        self._skipped: set[int] = set()
        self._kernel: KernelProcess | None = None
        self._asked = self._lost = 0
        self._cells_ran = True  # since the last look
        self._deadline = time.monotonic() + self.limits.submission

    def __enter__(self) -> KernelStudent:
        try:
            self._again_where_lost(self._start)
        except KernelSlow as failure:
            self._note_worst(failure)  # each probe will say so
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception) -> None:
        self._stop()

    def run(self, probe: Callable, *args):
        """See `facts.Student.run`. Raises StudentError, also for a crash or no answer in time."""
        return self._read(self._again_where_lost(lambda: self._ask(probe, args)))

    def _again_where_lost(self, work: Callable):
        """Do it, and again where the process that forks kernels has ended meanwhile. The student is not to blame."""
        while True:
            try:
                return work()
            except ForkServerEnded:
                self._stop()
                self._lost += 1

    def _ask(self, probe: Callable, args: tuple) -> dict:
        if self._kernel is None:
            self._start()
        self._asked += 1
        number = f"{self._asked}{'' if self._cells_ran else LOOKED}"
        wish = f"{number}-{self._encipher(wire.encode([probe_source(probe), probe.__name__, list(args)]))}"
        request = f"{wish}.{self._sign(wish.encode(), b'ask')}"
        self._cells_ran = False
        call = f"(lambda box: (__import__('sys').audit('course.look', {request!r}, globals(), box), box)[1][0])([])"
        try:
            return self._execute("", self.limits.call, {"answer": call})
        except (KernelDied, KernelSlow) as failure:
            self._note_worst(failure)
            self._stop()  # started again, and the notebook replayed, when the next probe needs it
            raise

    def _read(self, reply: dict):
        """What the observer found. Raises StudentError for what it did not sign, or could not find."""
        try:
            answer = reply["user_expressions"]["answer"]
            if answer["status"] != "ok":
                raise StudentError(f"It raised {sanitized(answer['ename'])}: {sanitized(answer['evalue'])}")
            told, _, signature = answer["data"]["text/plain"].strip("'").rpartition(".")
            if not compare_digest(signature, self._sign(told.encode("ascii"), b"answer")):
                raise ValueError
            number, *lists, found = told.split(";")
            before, during, flags = ([_text(word) for word in one.split(",") if word] for one in lists)
            if number != str(self._asked):
                raise ValueError
        except (LookupError, TypeError, ValueError, AttributeError):
            self._flag("a reply was not the observer's: something in the notebook forges or breaks replies")
            raise StudentError("The answer that came back cannot be read.") from None
        for text in flags:
            self._flag(text)
        for name in before:
            self._flag(f"it replaced {name}, which was put back before looking")
        if during:
            self._flag(f"while its functions ran it replaced {', '.join(during)}")
            raise StudentError(f"While it ran it replaced {during[0]}: what it did cannot be told then.")
        try:
            kind, _, message = found.partition(" ")
            value = wire.decode(message)
        except ValueError:
            raise StudentError("The answer that came back cannot be read.") from None
        if kind != "answer":
            raise StudentError(sanitized(value, 4000))
        return value

    def _encipher(self, text: str) -> str:
        """A probe's text, which only the observer can read: the notebook's code may see whatever comes in.

        A stream cipher: SHAKE256 of a secret and the number of the request, which is used once for each key.
        """
        plain = text.encode("ascii")
        secret = blake2b(key=self._kernel.key, person=b"encipher").digest()
        stream = shake_256(secret + str(self._asked).encode()).digest(len(plain))
        sealed = int.from_bytes(plain, "big") ^ int.from_bytes(stream, "big")
        return b64encode(sealed.to_bytes(len(plain), "big")).decode()

    def _sign(self, message: bytes, purpose: bytes) -> str:
        return blake2b(message, key=self._kernel.key, person=purpose).hexdigest()

    def _flag(self, text: str) -> None:
        text = sanitized(text, 200)
        if text not in self.flags and len(self.flags) < MOST_FLAGS:
            self.flags.append(text)

    def _start(self) -> None:
        """Start a kernel and run the notebook in it, leaving out cells that crashed or hung before."""
        while True:
            self._stop()
            self._launch()
            for number, source in enumerate(self.cells, 1):
                if number in self._skipped:
                    continue
                try:
                    self._execute(source, self.limits.cell)
                except (KernelDied, KernelSlow) as failure:
                    self._note_worst(failure)
                    self.errors[number] = str(failure)
                    self._skipped.add(number)
                    break
                except StudentError as failure:
                    self.worst = "error" if self.worst == "ok" else self.worst
                    self.errors[number] = str(failure)
            else:
                return

    def _launch(self) -> None:
        if time.monotonic() > self._deadline:
            raise KernelSlow(f"The submission has used its {self.limits.submission:g} seconds.")
        self._asked, self._cells_ran = 0, True
        self._kernel = KernelProcess(self.limits, forked=self._lost < TRIES)

    def _stop(self) -> None:
        if self._kernel is not None:
            self._kernel.stop()
            self._kernel = None

    def _execute(self, code: str, seconds: float, expressions: dict | None = None) -> dict:
        deadline = min(time.monotonic() + seconds, self._deadline)
        return self._kernel.execute(code, deadline, f"No answer within {seconds:g} seconds.", expressions)

    def _note_worst(self, failure: StudentError) -> None:
        kind = "crash" if isinstance(failure, KernelDied) else "timeout"
        if self.worst != "crash":
            self.worst = kind


def _text(word: str) -> str:
    return bytes.fromhex(word).decode(errors="replace")
