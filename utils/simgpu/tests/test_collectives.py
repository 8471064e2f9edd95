"""What collectives cost: NCCL's model against dumb simulations of its algorithms, step by step on n engines."""

import pytest

from simgpu.collectives import COLLECTIVES, PROTOCOLS, Fabric
from simgpu.profiles import LINKS, NETWORKS, LinkProfile

LINK = LINKS["nvlink3"]
SIZES = (4_096, 1_000_000, 250_000_000)


V100, A100, H100 = ((major, 0) for major in (7, 8, 9))


def ring_of(ranks, link=LINK, nodes=1):
    return Fabric(ranks, nodes, link, NETWORKS["200G"], A100)


def simulated_ring(ranks, rounds, size, base, step, bandwidth):
    """Every GPU passes a chunk on to the next, again and again: when the last has the last chunk.

    `free[r]` is when the engine of rank r can send again, `has[r]` when it has what it sends next.
    """
    free, has = [base] * ranks, [base] * ranks
    for _ in range(rounds * (ranks - 1)):
        arrives = []
        for rank in range(ranks):
            start = max(free[rank], has[rank])
            free[rank] = start + step + size / ranks / bandwidth
            arrives.append(free[rank])
        has = [arrives[rank - 1] for rank in range(ranks)]
    return max(has)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(("collective", "rounds"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_ring_takes_what_its_steps_take(ranks, collective, rounds, protocol):
    fabric, known = ring_of(ranks), PROTOCOLS[protocol]
    bandwidth = fabric._share(protocol, reduces=collective != "all_gather")
    for size in SIZES:
        by_hand = simulated_ring(ranks, rounds, size, known.ring_base, known.ring_step["nvlink"], bandwidth)
        assert fabric._ring(collective, size, protocol) == pytest.approx(by_hand)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_broadcast_passes_through_all_gpus_in_pieces(collective):
    fabric, known = ring_of(4), PROTOCOLS["LL128"]
    size, pieces, bandwidth, step = 64_000_000, 4_000, fabric._share("LL128"), known.ring_step["nvlink"]
    has = [[known.ring_base] * pieces] + [[0.0] * pieces for _ in range(4)]
    for hop in range(4):
        free = 0.0
        for piece in range(pieces):
            free = max(free, has[hop][piece]) + size / pieces / bandwidth
            has[hop + 1][piece] = free + step
    assert fabric._ring(collective, size, "LL128") == pytest.approx(has[4][-1], rel=0.01)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_tree_goes_up_and_down(nodes):
    fabric, known = ring_of(8 * nodes, nodes=nodes), PROTOCOLS["Simple"]
    depth = {1: 0, 2: 1, 4: 2}[nodes]
    hops = 7 * known.tree_step["nvlink"] + depth * known.tree_step["network"]
    size = 2**30  # large enough to need no correction
    by_channel = {1: float("inf"), 2: 23.6e9, 4: 17.8e9}[nodes]  # NCCL's rows for Ampere
    bandwidth = min(0.92 * LINK.collective, 8 * by_channel)
    assert fabric._tree(size, "Simple") == pytest.approx(2 * hops + 2 * size / bandwidth)


@pytest.mark.parametrize(
    ("capability", "link", "network", "nodes", "per_node", "channels", "caps"),
    [  # (NVLink of a whole V100: six links of 22 GB/s as NCCL 2.17 counts them)
        (V100, 132e9, "100G", 2, 8, (8, 15e9), None),
        (V100, 132e9, "100G", 4, 8, (8, 12e9), (80e9, 75e9)),
        (A100, 235e9, "200G", 2, 8, (8, 28e9), (8 * 23.6e9, 160e9)),
        (A100, 235e9, "200G", 4, 8, (8, 24e9), (8 * 17.8e9, 8 * 17.8e9 * 120 / 128)),
        (A100, 235e9, "400G", 4, 1, (2, 24e9), (2 * 17.8e9, 2 * 17.8e9 * 120 / 128)),
        (H100, 370.8e9, "400G", 2, 8, (8, 45e9), (8 * 0.92 * 45e9, 8 * 36.7e9)),
        (H100, 370.8e9, "400G", 64, 8, (8, 45e9), (8 * 33e9, 8 * 33e9 * 120 / 128)),
        (H100, 370.8e9, "400G", 4, 1, (1, 48e9), (33e9, 33e9 * 120 / 128)),
        ((10, 0), 720e9, "400G", 4, 8, (8, 48e9), (8 * 33e9, 8 * 33e9 * 120 / 128)),
    ],
)
def test_between_nodes_a_channel_has_a_rate_of_its_generation(
    capability, link, network, nodes, per_node, channels, caps
):
    fabric = Fabric(
        nodes * per_node, nodes, LinkProfile("x", link, "here", kind="nvlink"), NETWORKS[network], capability
    )
    assert fabric.channels == channels
    if caps:
        assert (fabric._tree_share("Simple"), fabric._tree_share("LL128")) == pytest.approx(caps)
    assert fabric._share("LL128") <= channels[0] * {7: 20e9, 8: 20e9}.get(capability[0], 36.7e9)


def test_nothing_is_faster_in_more_nodes_or_by_fewer_adapters():
    for capability in (V100, A100, H100):
        for per_node in (1, 2, 4, 8):
            for size in (2**16, 2**24, 2**30):
                took = [
                    Fabric(nodes * per_node, nodes, LINK, NETWORKS["200G"], capability).seconds("all_reduce", size)
                    for nodes in (2, 4, 16, 64)
                ]
                assert took == sorted(took)
                slow, fast = (
                    Fabric(4 * per_node, 4, LINK, NETWORKS[network], capability).seconds("all_reduce", size)
                    for network in ("25G", "400G")
                )
                assert fast < slow


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_more_bytes_take_longer_and_one_gpu_takes_nothing(collective):
    for fabric in (ring_of(4), ring_of(16, nodes=2), ring_of(2, LINKS["pcie3"]), ring_of(2, nodes=2)):
        times = [fabric.seconds(collective, 2**power) for power in range(10, 31)]
        assert times == sorted(times)
        assert times[0] > 0
    assert ring_of(1).seconds(collective, 10**9) == 0


def test_the_fastest_way_is_taken():
    """Few bytes by the protocol with the least latency, many by the one with the most bandwidth."""
    fabric = ring_of(8)
    small, large = (
        min(PROTOCOLS, key=lambda protocol, size=size: fabric._ring("all_reduce", size, protocol))
        for size in (8, 2**30)
    )
    assert (small, large) == ("LL", "Simple")
    assert fabric.seconds("all_reduce", 2**30) == fabric._ring("all_reduce", 2**30, "Simple")


def test_between_nodes_all_adapters_of_a_node_share_the_work():
    one_each = Fabric(2, 2, LINK, NETWORKS["100G"])
    eight_each = Fabric(16, 2, LINK, NETWORKS["100G"])
    assert one_each.bandwidth == 12e9
    assert eight_each.bandwidth == 96e9
    assert Fabric(16, 2, LINK, NETWORKS["400G"]).bandwidth == LINK.collective, "no faster than within a node"


def test_an_all_to_all_leaves_a_node_by_one_adapter_a_gpu():
    fabric = Fabric(4, 2, LINK, NETWORKS["100G"])
    size = 4 * 12 * 10**6
    assert fabric.seconds("all_to_all", size) == pytest.approx(2 * 12e6 / 12e9, rel=0.02)


def test_what_there_is_not_is_refused_in_a_line():
    with pytest.raises(ValueError, match=r"'all_sum' is no collective\. There are: all_reduce"):
        ring_of(2).seconds("all_sum", 4)
    with pytest.raises(ValueError, match="kind='string' is none of nvlink, pcie, network"):
        LinkProfile("x", 1e9, "here", kind="string")


@pytest.mark.parametrize("nodes", [1, 64])
def test_a_collective_takes_the_fastest_of_its_algorithms(nodes):
    fabric = ring_of(8 * nodes, nodes=nodes)
    for size in SIZES:
        ways = fabric.by_algorithm("all_reduce", size)
        assert set(ways) == {"ring", "tree"}
        assert fabric.seconds("all_reduce", size) == min(ways.values())
        assert set(fabric.by_algorithm("all_gather", size)) == {"ring"}
    small, large = (fabric.by_algorithm("all_reduce", size) for size in (4_096, 2**32))
    assert large["ring"] < large["tree"]
    assert (small["tree"] < small["ring"]) == (nodes > 1)
