"""Send and receive: a message begins when both ends are ready, and carries its sender's time."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

import torch

from ..collectives import PROTOCOLS
from ..flight import Entry
from ..hardware import machine
from ..waiting import Mismatch
from .arguments import bytes_in, gpu_of, numbers_of, shapes_of, tag_in_words
from .group import Group, link_between_ranks
from .work import SimWork

# What starts a send and its receive, beside the link's own time: NCCL's kernel with the protocol for large messages.
PAIR = PROTOCOLS["Simple"].ring_base


class PointToPoint:
    """The messages of one group, at this end."""

    def __init__(self, group: Group):
        self._group = group
        self._sent: dict[tuple, int] = {}  # how many messages from whom to whom, by tag, at this end
        self._open: dict[tuple, deque[SimWork]] = {}  # not waited for yet, as launched, by end and tag
        self._to_itself: dict[str, torch.Tensor] = {}  # numbers on the way, by message
        self._together: int | None = None  # how many have been launched since works are coalesced

    def begin_together(self) -> None:
        """What is launched from now on is one call of NCCL's."""
        self._together = 0

    def end_together(self) -> Entry | None:
        """The end of that call, as the flight recorder has it; None where it had no messages."""
        together, self._together = self._together, None
        if not together:
            return None
        return self._group.flight.enter("coalesced", [], [], machine.clock.now(), p2p=True, joined=True)

    def completed_together(self, entry: Entry | None, end: float) -> None:
        """All messages of that call have arrived."""
        if entry is not None:
            entry.started, entry.completed = entry.created, max(end, entry.created)

    def send(self, tensors, dst: int, tag: int) -> SimWork:
        what = f"send({shapes_of(tensors)}, dst={self._group.members[dst]}{tag_in_words(tag)})"
        message = self._message(tensors, self._group.rank, dst, "send", what, tag)
        if self._group.alone:
            return message.work_alone()
        waiting = self._group.waiting
        with waiting(what):
            waiting.leave(message.key("ready to send"), message.words)
            # What is sent is what the tensor holds now, and goes at once: the sender may wait much later.
            copy = numbers_of(tensors[0]).contiguous().clone() if machine.compute else None
            sent = []
            if copy is not None and dst == self._group.rank:
                self._to_itself[message.key("numbers")] = copy
            elif copy is not None:
                sent = [self._group.gloo.send([copy], dst, message.place)]

        def finish() -> float:
            message.begin()
            with waiting(what):
                end = message.end(waiting.find(message.key("ready to receive")))
                for work in sent:
                    work.wait()
            return end

        return self._in_order(message, finish)

    def recv(self, tensors, src: int, tag: int) -> SimWork:
        what = f"recv({shapes_of(tensors)}, src={self._group.members[src]}{tag_in_words(tag)})"
        message = self._message(tensors, src, self._group.rank, "recv", what, tag)
        if self._group.alone:
            return message.work_alone()
        waiting = self._group.waiting
        value = numbers_of(tensors[0])
        into = torch.empty_like(value, memory_format=torch.contiguous_format)
        with waiting(what):
            waiting.leave(message.key("ready to receive"), message.words)
            from_another = machine.compute and src != self._group.rank
            got = [self._group.gloo.recv([into], src, message.place)] if from_another else []

        def finish() -> float:
            message.begin()
            with waiting(what):
                end = message.end(waiting.find(message.key("ready to send")))
                for work in got:
                    work.wait()
            if machine.compute:
                value.copy_(into if from_another else self._to_itself.pop(message.key("numbers")))
            return end

        return self._in_order(message, finish)

    def _in_order(self, message: Message, finish: Callable[[], float]) -> SimWork:
        """A work that first completes what was launched before it at this end and that has not been waited for.

        NCCL's stream does so. It is also kept until then: where a program drops a work, gloo would drop the
        message, and the next one would wait for ever.
        """
        launched = self._open.setdefault(message.end_and_tag, deque())

        def finish_in_order() -> float:
            while launched[0] is not work:
                launched[0].complete()
            launched.popleft()
            return finish()

        work = message.work(finish_in_order)
        launched.append(work)
        return work

    def _message(self, tensors, source: int, target: int, name: str, what: str, tag: int) -> Message:
        gpu = gpu_of(tensors)
        link = link_between_ranks(self._group.members[source], self._group.members[target])
        ways = ("link",) if link is machine.known_settings.link else ("network",)
        seconds = PAIR + link.seconds(bytes_in(tensors))
        if source == target:  # a copy, which reads and writes
            ways, seconds = (), PAIR + 2 * bytes_in(tensors) / gpu.profile.bandwidth
        ready, launched = self._group.ready(gpu, ways)
        told = f"send {source}->{target}" if name == "send" else f"recv {target}<-{source}"
        joined, self._together = bool(self._together), None if self._together is None else self._together + 1
        entry = self._group.flight.enter(told, tensors, tensors, launched, p2p=True, joined=joined)
        end = name, source, target, tag
        self._sent[end] = number = self._sent.get(end, 0) + 1
        key = f"{source} to {target}, {tag}, {number}"
        other = target if name == "send" else source
        return Message(self._group, gpu, ways, name, tensors, ready, launched, seconds, other, entry, key, end)


class Message:
    """One end of a message. Both ends tell each other when they are ready and what they think it is."""

    def __init__(self, group, gpu, ways, name, tensors, ready, launched, seconds, other, entry, key, end_and_tag):
        self._group, self._gpu, self._ways, self._name, self._tensors = group, gpu, ways, name, tensors
        ends = group.members[group.rank], group.members[other]
        self._between = "rank {} to rank {}".format(*(ends if name == "send" else ends[::-1]))
        self._ready, self._launched, self._seconds, self._other = ready, launched, seconds, other
        self._entry, self._key, self.end_and_tag = entry, key, end_and_tag
        self.words = [ready, shapes_of(tensors)]
        # Gloo's tag for the numbers: another for another shape, because gloo would break the connection over it.
        self.place = zlib.crc32(f"{key.rpartition(',')[0]} {shapes_of(tensors)}".encode()) % 2**30

    def key(self, of: str) -> str:
        return f"message {self._key}, {of}"

    def begin(self) -> None:
        """The GPU waits for the other end: for the flight recorder it has started."""
        self._entry.started = self._ready

    def end(self, answer: list) -> float:
        """When it has arrived, by the other end's words. RuntimeError where it has another tensor."""
        if answer[1] != self.words[1]:
            ends = [(self._group.rank, self.words[1]), (self._other, answer[1])]
            (one, sent), (other, expected) = ends if self._name == "send" else reversed(ends)
            one, other = self._group.members[one], self._group.members[other]
            raise Mismatch(
                f"rank {one} sends {sent} to rank {other}, which receives it as {expected}: make them alike."
            )
        return self._take(max(self._ready, answer[0]) + self._seconds)

    def _take(self, end: float) -> float:
        size = bytes_in(self._tensors)
        self.begin()
        self._entry.completed = end
        self._group.take(self._gpu, self._ways, self._name, self._ready, end, size, self._launched, self._between)
        return end

    def work(self, finish) -> SimWork:
        return SimWork(self._tensors, self._gpu, self._ready, finish)

    def work_alone(self) -> SimWork:
        return SimWork(self._tensors, self._gpu, self._take(self._ready + self._seconds))
