"""What a collective of several GPUs takes: NCCL's own model of its time, by which NCCL chooses an algorithm.

    Fabric(ranks=8, nodes=1, link=LINKS["nvlink3"], network=LINKS["200G"]).seconds("all_reduce", 100_000_000)

NCCL has two algorithms, a ring and a tree, and three protocols, and takes what its model says is fastest: time =
latency + bytes / bandwidth. Model and constants are those of src/graph/tuning.cc, search.cc and topo.h (NVIDIA/nccl
2.17.1, commit 5d3ab08, BSD-3), where its authors measured them:

    ring    all-reduce: 2 (n - 1) steps, in each of which every GPU passes bytes / n on to the next. All-gather and
            reduce-scatter are its halves. Broadcast and reduce: the whole passes from GPU to GPU, in small pieces.
    tree    all-reduce only: up to a root and down again; within a node the tree is a chain.

Protocols trade bandwidth for latency: "LL" sends a flag with each 4 bytes and takes half of the link or less, "LL128"
a flag with each 120 bytes, "Simple" whole chunks behind a fence.

GPUs add up what passes, in channels: blocks of a kernel, each with a ring and a tree of its own. So between nodes the
rate of a tree, and that of LL128, is capped by channel and by the GPU's generation. (NCCL up to 2.7 capped trees as a
whole, at 110 GB/s over two nodes and 80 over more. 2.8 has the caps by channel, 2.17 the first that were measured on
H100. 2.18 raised that of a tree over more than two nodes from 33 to 36 GB/s, and the latencies, which are left here.)
Within a node the caps are above what links carry.

Left out: NVLink SHARP (switches that add up, H100 and later: an all-reduce of 8 GPUs reaches 480 GB/s of bus bandwidth
with it and 370 without, NVIDIA/nccl-tests issue 212), CollNet, switches of the network and their oversubscription, and
that groups which work at the same time share links. Every GPU has a network adapter of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import NamedTuple

from .profiles import LinkProfile

MICROSECOND = 1e-6


class Protocol(NamedTuple):
    """Latencies in seconds: of the whole, and of one step by the kind of link that it crosses."""

    ring_base: float
    tree_base: float
    ring_step: dict[str, float]
    tree_step: dict[str, float]


def _protocol(ring_base, tree_base, ring_steps, tree_steps) -> Protocol:
    return Protocol(ring_base * MICROSECOND, tree_base * MICROSECOND, _by_link(ring_steps), _by_link(tree_steps))


def _by_link(microseconds: tuple[float, ...]) -> dict[str, float]:
    return {kind: us * MICROSECOND for kind, us in zip(("nvlink", "pcie", "network"), microseconds, strict=True)}


PROTOCOLS = {
    "LL": _protocol(3.6, 4.4, (0.47, 1.0, 2.7), (0.52, 1.0, 5.0)),
    "LL128": _protocol(10.0, 4.4, (1.9, 2.5, 4.0), (1.25, 1.9, 8.5)),
    "Simple": _protocol(8.4, 0.0, (3.4, 5.7, 9.6), (28.0, 28.0, 28.0)),
}
# A tree is not quite as fast as the model says where messages are neither small nor large: NCCL's own correction of
# its bandwidth, for powers of two from 64 bytes to 256 MB.
TREE_CORRECTION = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (*(1,) * 5, 0.9, 0.8, 0.8, 0.8, 0.7, *(0.6,) * 6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, *(0.5,) * 4, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
}
GB = 1e9
LL_MOST = (39.0 * GB, 20.4 * GB)  # bytes a second by LL between nodes whose hosts are Intel's: over two, over more


class Generation(NamedTuple):
    """What GPUs of one generation do in NCCL, in bytes a second."""

    speeds: tuple[float, ...]  # of a channel between nodes, that NCCL tries
    twice: float  # channels as fast as this are made two
    tree: tuple[float, float]  # the most through a tree's channel: over two nodes, over more
    ll128: float  # the most through a channel by LL128
    ll: float  # the most by LL within a node
    plateau: float  # how much longer the steps of a ring with large messages take between nodes


def _generation(speeds, *others) -> Generation:
    twice, two, more, ll128, ll, plateau = others
    return Generation(
        tuple(each * GB for each in speeds), twice * GB, (two * GB, more * GB), ll128 * GB, ll * GB, plateau
    )


_SPEEDS = (48, 30, 28, 24, 22, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
_HOPPERS = (48, 45, 30, 24, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
GENERATIONS = {
    9: _generation(_HOPPERS, 50, 41.4, 33.0, 36.7, 87.7, 1.5),  # and later ones, as in NCCL 2.17
    8: _generation(_SPEEDS, 25, 23.6, 17.8, 20.0, 87.7, 1.9),
    7: _generation(_SPEEDS, 25, 18.5, 10.0, 20.0, 39.0, 1.9),  # and earlier ones
}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")


@dataclass(frozen=True)
class Fabric:
    """Some GPUs that work together: how many, in how many nodes, and what links them in a node and between nodes.

    `capability` is the GPUs' compute capability, an H100's if none is given.
    """

    ranks: int
    nodes: int
    link: LinkProfile
    network: LinkProfile
    capability: tuple[int, int] = (9, 0)

    @property
    def _generation(self) -> Generation:
        return GENERATIONS[min(max(self.capability[0], 7), 9)]

    @cached_property
    def channels(self) -> tuple[int, float]:
        """Between nodes: how many channels NCCL finds, and bytes a second of each in a tree.

        As NCCL's search: the most bytes a second that channels of one speed carry through the adapters and the node's
        links, of equal ones the fewest. In a tree over two nodes a channel may be faster in the node than between.
        """
        known, per_node = self._generation, self.ranks // self.nodes
        most = self.link.collective if per_node > 1 else float("inf")

        def fitting(speed: float) -> int:
            return int(min(per_node * (self.network.collective // speed), most // speed))

        speeds = [speed for speed in known.speeds if fitting(speed)] or [min(self.network.collective, most)]
        speeds = [speed for speed in speeds if speed > 0.49 * speeds[0]]
        speed = max(speeds, key=lambda one: one * fitting(one))
        count = max(1, fitting(speed))
        halves = 2 if speed >= known.twice else 1
        if self.nodes == 2:
            for faster in sorted(one for one in known.speeds if one > speed):
                if speed >= 2 * self.network.collective or count * faster > most:
                    break
                speed = faster
        return count * halves, speed / halves

    @property
    def bandwidth(self) -> float:
        """Bytes a second that each GPU passes on in a ring; between nodes all adapters of a node share the work."""
        if self.nodes == 1:
            return self.link.collective
        a_node = self.ranks / self.nodes * self.network.collective
        return min(self.link.collective, a_node) if self.ranks > self.nodes else a_node

    def seconds(self, collective: str, size: int) -> float:
        """What a collective takes from the moment that its last rank is ready.

        `size` in bytes is that of the whole: what is reduced, what is gathered from all, what is scattered to all,
        what each rank sends to all others. Raises ValueError for a collective that there is not.
        """
        if collective not in COLLECTIVES:
            raise ValueError(f"{collective!r} is no collective. There are: {', '.join(COLLECTIVES)}")
        if self.ranks == 1:
            return 0.0
        if collective == "all_to_all":
            return self._all_to_all(size)
        return min(self.by_algorithm(collective, size).values())

    def by_algorithm(self, collective: str, size: int) -> dict[str, float]:
        """Seconds of a collective of at least two ranks, by algorithm, each with its fastest protocol.

        An all-to-all has none to choose from.
        """
        ways = {"ring": min(self._ring(collective, size, protocol) for protocol in self._protocols())}
        if collective == "all_reduce":
            ways["tree"] = min(self._tree(size, protocol) for protocol in self._protocols())
        return ways

    def _protocols(self) -> list[str]:
        # NCCL trusts LL128 on NVLink only.
        return ["LL", "Simple"] + ["LL128"] * (self.link.kind == "nvlink")

    def _ring(self, collective: str, size: int, protocol: str) -> float:
        n, nodes, kind = self.ranks, self.nodes, self.link.kind
        rounds = 2 if collective == "all_reduce" else 1
        known = PROTOCOLS[protocol]
        in_node, between = known.ring_step[kind], known.ring_step["network"]
        if collective in ("broadcast", "reduce"):
            # A chunk passes all GPUs, and the rest follows it.
            through = known.tree_step if protocol == "Simple" else known.ring_step
            latency = n * through["network" if nodes > 1 else kind]
            return known.ring_base + latency + size / self._share(protocol)
        if nodes > 1 and protocol == "LL":
            in_node *= 1.8
        between_steps = 0 if nodes == 1 else 2 * nodes if rounds == 2 else nodes - 1
        latency = known.ring_base + (rounds * (n - 1) - between_steps) * in_node + between_steps * between
        if nodes > 1:  # every step waits for the slowest of the ring's links, which is the network
            latency += rounds * (n - 1) * self.network.step
        if protocol == "Simple" and nodes > 1 and rounds == 2 and size >= n * 4096:
            latency *= self._generation.plateau  # NCCL's "plateau effect of ring"
        return latency + rounds * (n - 1) / n * size / self._share(protocol, reduces=collective != "all_gather")

    def _share(self, protocol: str, reduces: bool = True) -> float:
        """The bandwidth of a ring that a protocol can use."""
        if protocol == "LL":
            return min(self.bandwidth / (4 if self.nodes > 1 or reduces else 3), self._ll_most)
        if protocol == "LL128":
            share = self.bandwidth * (0.7 if self.ranks < 2 * self.nodes else 0.92)
            return share if self.nodes == 1 else min(share, self.channels[0] * self._generation.ll128)
        return self.bandwidth

    @property
    def _ll_most(self) -> float:
        return self._generation.ll if self.nodes == 1 else LL_MOST[self.nodes > 2]

    def _tree(self, size: int, protocol: str) -> float:
        known = PROTOCOLS[protocol]
        in_node = known.tree_step[self.link.kind] * (1.8 if self.nodes > 1 and protocol == "LL" else 1)
        chain = (self.ranks // self.nodes - 1) * in_node
        between = known.tree_step["network"] + self.network.step
        latency = known.tree_base + 2 * (chain + int(log2(self.nodes)) * between)
        bandwidth = self._tree_share(protocol)
        position = int(log2(max(size >> 6, 1)))
        if position < len(TREE_CORRECTION[protocol]):
            bandwidth *= TREE_CORRECTION[protocol][position]
        return latency + 2 * size / bandwidth  # up and down: each byte passes every link twice

    def _tree_share(self, protocol: str) -> float:
        """The bandwidth of a tree that a protocol can use."""
        if self.nodes == 1:
            whole = 0.92 * self.link.collective
            return {"LL": min(whole / 3.8, self._ll_most), "LL128": whole * 7 / 9, "Simple": whole}[protocol]
        (count, speed), generation = self.channels, self._generation
        whole = count * min(0.92 * speed, generation.tree[self.nodes > 2])
        by_ll128 = min(whole * 120 / 128, count * generation.ll128)
        return {"LL": min(whole / 3.8, self._ll_most), "LL128": by_ll128, "Simple": whole}[protocol]

    def _all_to_all(self, size: int) -> float:
        per_node = self.ranks // self.nodes
        to_one = size / self.ranks
        return self.pairs_seconds((per_node - 1) * to_one, (self.ranks - per_node) * to_one)

    def pairs_seconds(self, inside: float, outside: float) -> float:
        """What it takes one GPU to exchange so many bytes with others of its node, and with other nodes' GPUs.

        Each is the larger of what it sends and what it receives. NCCL makes an all-to-all of such pairs: what goes to
        other nodes leaves by the network, the rest by the link.
        """
        kind = "network" if self.nodes > 1 else self.link.kind
        moving = max(inside / self.link.collective, outside / self.network.collective)
        return PROTOCOLS["Simple"].ring_base + PROTOCOLS["Simple"].ring_step[kind] + moving
