"""What a collective of several GPUs takes: NCCL's own model of its time, by which NCCL chooses an algorithm.

    Fabric(ranks=8, nodes=1, link=LINKS["nvlink3"], network=LINKS["200G"]).seconds("all_reduce", 100_000_000)

NCCL has two algorithms, a ring and a tree, and three protocols, and takes what its model says is fastest: time =
latency + bytes / bandwidth. Model and constants are those of src/graph/tuning.cc and topo.h (NVIDIA/nccl 2.8, commit
01afd20, BSD-3), where its authors measured them:

    ring    all-reduce: 2 (n - 1) steps, in each of which every GPU passes bytes / n on to the next. All-gather and
            reduce-scatter are its halves. Broadcast and reduce: the whole passes from GPU to GPU, in small pieces.
    tree    all-reduce only: up to a root and down again; within a node the tree is a chain.

Protocols trade bandwidth for latency: "LL" sends a flag with each 4 bytes and takes half of the link or less, "LL128"
a flag with each 120 bytes, "Simple" whole chunks behind a fence.

Left out: NVLink SHARP (switches that add up, H100 and later: an all-reduce of 8 GPUs reaches 480 GB/s of bus bandwidth
with it and 370 without, NVIDIA/nccl-tests issue 212), CollNet, switches of the network and their oversubscription, and
that groups which work at the same time share links. Every GPU has a network adapter of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    "LL128": _protocol(10.0, 4.4, (1.9, 2.5, 4.0), (1.2, 1.9, 8.5)),
    "Simple": _protocol(8.4, 0.0, (3.4, 5.7, 9.6), (28.0, 28.0, 50.0)),
}
# A tree is not quite as fast as the model says where messages are neither small nor large: NCCL's own correction of
# its bandwidth, for powers of two from 64 bytes to 128 MB.
TREE_CORRECTION = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    "Simple": (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, *(0.5,) * 6, 0.6, 0.6, 0.7, 0.8, 0.9),
}
TREE_MOST = {True: 110e9, False: 80e9}  # bytes a second through a tree, in at most two nodes and in more
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")


@dataclass(frozen=True)
class Fabric:
    """Some GPUs that work together: how many, in how many nodes, and what links them in a node and between nodes."""

    ranks: int
    nodes: int
    link: LinkProfile
    network: LinkProfile

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
        between_steps = rounds * (nodes - 1)
        latency = known.ring_base + (rounds * (n - 1) - between_steps) * in_node + between_steps * between
        if nodes > 1:  # every step waits for the slowest of the ring's links, which is the network
            latency += rounds * (n - 1) * self.network.step
        if protocol == "Simple" and nodes > 1 and rounds == 2 and size >= n * 4096:
            latency *= 1.9  # NCCL's "plateau effect of ring"
        return latency + rounds * (n - 1) / n * size / self._share(protocol, reduces=collective != "all_gather")

    def _share(self, protocol: str, reduces: bool = True) -> float:
        """The bandwidth of a ring that a protocol can use."""
        if protocol == "LL":
            return self.bandwidth / (4 if self.nodes > 1 or reduces else 3)
        if protocol == "LL128":
            return self.bandwidth * (0.7 if self.ranks < 2 * self.nodes else 0.92)
        return self.bandwidth

    def _tree(self, size: int, protocol: str) -> float:
        known = PROTOCOLS[protocol]
        in_node = known.tree_step[self.link.kind] * (1.8 if self.nodes > 1 and protocol == "LL" else 1)
        chain = (self.ranks // self.nodes - 1) * in_node
        latency = known.tree_base + 2 * (chain + int(log2(self.nodes)) * known.tree_step["network"])
        bandwidth = min(0.9 * self.bandwidth, TREE_MOST[self.nodes <= 2])
        bandwidth *= {"LL": 1 / 3.8, "LL128": 7 / 9 if self.nodes == 1 else 0.915, "Simple": 1.0}[protocol]
        position = int(log2(max(size >> 6, 1)))
        if position < len(TREE_CORRECTION[protocol]):
            bandwidth *= TREE_CORRECTION[protocol][position]
        return latency + 2 * size / bandwidth  # up and down: each byte passes every link twice

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
