"""The planner: beside shapes-only simulation, what has to grow with what, and what it is asked wrongly."""

import dataclasses

import pytest
import torch
from torch import nn

from simgpu import torch_private
from simgpu.profiles import GPUS, NETWORKS
from tests.support.tiers import THOROUGH
from utils.common.errors import Problem
from utils.planner import Cluster, HostProfile, Layout, estimate_layout, llama, mpt, nanotron, of_module, plan, why_not
from utils.planner.cluster import CPU_ADAM
from utils.planner.estimate import BUFFERS, CONTEXT, cut_by_time
from utils.planner.layouts import KERNELS
from utils.planner.models import Split
from utils.planner.replay import CHANNELS, Groups, Replay
from utils.planner.simulating import simulate
from utils.planner.trace import Begin, Collective, Wait

SIZES = {
    "layers": 4,
    "hidden_size": 1024,
    "heads": 8,
    "kv_heads": 4,
    "intermediate_size": 4096,
    "vocab_size": 8192,
    "length": 2048,
}


@pytest.fixture(scope="module")
def model():
    return llama(**SIZES)


def cost(model, gpus=None, **fields):
    layout = Layout(**fields)
    return estimate_layout(model, Cluster("H100", gpus or layout.gpus), layout)


@THOROUGH
@pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")
def test_it_comes_near_to_shapes_only_simulation(model):
    wide = llama(**SIZES | {"hidden_size": 4096, "heads": 32, "kv_heads": 8, "intermediate_size": 14336})
    small_layouts = [Layout(shard=8, rows=4), Layout(shard=4, tensor=2, rows=4)]
    wide_layouts = [
        Layout(shard=4, tensor=8, rows=4),  # between nodes and within one: they don't wait for each other
        Layout(pipeline=2, micro_batches=4, fsdp=False, reshard=False),
    ]
    long = llama(**SIZES | {"length": 16384})
    long_layouts = [Layout(shard=2, context=4), Layout(context=2, recompute="full")]
    routed = llama(**SIZES, experts=8)
    routed_layouts = [Layout(shard=8, experts=4), Layout(data=2, shard=4, experts=2, recompute="full")]
    away = [Layout(shard=8, offload="weights"), Layout(shard=1, rows=4, recompute="full", offload="both")]
    cases = ((model, small_layouts + away), (wide, wide_layouts), (long, long_layouts), (routed, routed_layouts))
    for llama_like, asked in cases:
        for layout, simulated in zip(asked, simulate(llama_like, Cluster("H100", 32), asked), strict=True):
            ours = estimate_layout(llama_like, Cluster("H100", layout.gpus), layout)
            assert ours.seconds - ours.on_cpu == pytest.approx(simulated["seconds"], rel=0.1), layout
            assert ours.peak == pytest.approx(simulated["bytes"], rel=0.15), layout


def test_memory_and_time_go_the_right_way(model):
    alone, sharded = cost(model), cost(model, shard=8)
    assert sharded.memory["optimizer"] == pytest.approx(alone.memory["optimizer"] / 8, rel=0.01)
    assert cost(model, recompute="full", rows=4).peak < cost(model, recompute="selective", rows=4).peak
    assert cost(model, recompute="selective", rows=4).peak < cost(model, rows=4).peak
    assert cost(model, recompute="full", rows=4).seconds > cost(model, rows=4).seconds
    assert cost(model, rows=8).seconds > cost(model, rows=4).seconds
    assert cost(model, tensor=2, rows=4).memory["weights"] < cost(model, rows=4).memory["weights"]


def test_offloaded_weights_are_in_the_hosts_memory_and_cross_its_link(model):
    here, away = cost(model, shard=4), cost(model, shard=4, offload="weights")
    assert away.memory["weights"] == away.memory["gradients"] == away.memory["optimizer"] == 0
    share = here.memory["weights"]
    assert away.host == {"weights": share, "gradients": share, "optimizer": 2 * share}
    assert here.host == {}
    assert away.moved["host"] == pytest.approx(3 * share, rel=0.01), "weights for each pass, and gradients"
    assert "host" not in here.moved
    assert away.moved["link"] == here.moved["link"]
    assert away.on_cpu == pytest.approx(CPU_ADAM * 4 * share / 4), "four GPUs share the node's CPUs"
    assert here.on_cpu == 0 < here.seconds < away.seconds - away.on_cpu
    slow = estimate_layout(model, Cluster("H100", 4, host=HostProfile("pcie3")), away.layout)
    assert slow.seconds > away.seconds


def test_gradients_of_more_micro_batches_are_added_up_by_the_host(model):
    one, three = (cost(model, shard=4, micro_batches=count, offload="weights") for count in (1, 3))
    share = one.host["weights"]
    assert three.memory == one.memory
    assert three.moved["host"] == pytest.approx(3 * one.moved["host"], rel=0.01)
    assert three.on_cpu == pytest.approx(one.on_cpu * (1 + 2 * 3 / 7))
    pageable = share / Cluster("H100", 4).host.link.pageable
    assert three.seconds - three.on_cpu > 3 * (one.seconds - one.on_cpu), f"the host waits for {pageable} s twice"
    held = cost(model, shard=4, micro_batches=3, reshard=False, offload="weights")
    assert held.moved["host"] == pytest.approx(one.moved["host"] * 2 / 3, rel=0.01)


def test_zero1_all_reduces_gradients_and_gathers_weights_beside_nothing(model):
    gathered, zero1 = (cost(model, shard=8, micro_batches=2, reshard=False, zero1=each) for each in (False, True))
    assert zero1.memory == gathered.memory
    weights = zero1.memory["weights"] / 4 * 8  # of all GPUs
    # In a ring: an all-reduce of gradients in float32, an all-gather of weights in bfloat16.
    assert zero1.moved["link"] == pytest.approx((2 * 4 + 2) * weights * 7 / 8, rel=0.01)
    assert gathered.moved["link"] == pytest.approx((4 + 2) * weights * 7 / 8, rel=0.01)
    more = zero1.seconds - gathered.seconds
    assert more > Cluster("H100", 8).group(8, 1).seconds("all_gather", 2 * weights), "which hid behind the blocks"
    one = [cost(model, micro_batches=2, reshard=False, zero1=each).seconds for each in (False, True)]
    assert one[1] < one[0], "one GPU gathers nothing, and casts no weights"


@pytest.mark.parametrize("fields", [{"reshard": True}, {"fsdp": False}, {"experts": 2}, {"offload": "weights"}])
def test_zero1_with_what_it_is_not_estimated_with_is_refused(fields):
    with pytest.raises(ValueError, match="zero1=True: give reshard=False"):
        Layout(**({"shard": 8, "reshard": False, "zero1": True} | fields))


def test_offloaded_activations_are_the_inputs_of_blocks(model):
    fields = {"shard": 4, "rows": 4, "recompute": "full"}
    here, away = cost(model, **fields), cost(model, **fields, offload="activations")
    tokens = 4 * SIZES["length"]
    angles = SIZES["length"] * SIZES["hidden_size"] // SIZES["heads"] // 2 * 8
    assert away.host == {"activations": SIZES["layers"] * (tokens * SIZES["hidden_size"] * 2 + angles)}
    assert away.moved["host"] == pytest.approx(2 * away.host["activations"])
    assert away.peak < here.peak
    assert away.memory["optimizer"] == here.memory["optimizer"]
    assert away.on_cpu == 0
    assert here.seconds < away.seconds
    both = cost(model, **fields, offload="both")
    assert both.peak < away.peak
    assert set(both.host) == {"weights", "gradients", "optimizer", "activations"}


@THOROUGH  # a cheaper one: the best are simulated, below
@pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")
def test_an_offloaded_layout_comes_near_to_simulation(model):
    layout = Layout(shard=8, rows=4, recompute="full", offload="both")
    [simulated] = simulate(model, Cluster("H100", 8), [layout])
    ours = cost(model, **dataclasses.asdict(layout))
    assert ours.seconds - ours.on_cpu == pytest.approx(simulated["seconds"], rel=0.05)
    assert ours.peak == pytest.approx(simulated["bytes"], rel=0.03)


def test_the_search_offloads_where_nothing_else_fits(model):
    limits = {"most_rows": 1, "only": 1}
    room, none = (dataclasses.replace(GPUS["H100"], memory=size) for size in (80e9, 3.2e9))
    usual = plan(model, Cluster(room, 1), 2, **limits)
    assert {each.layout.offload for each in (*usual.fits, *usual.too_large)} == {"none"}
    assert "offload" not in usual.table(everything=True)
    tight = plan(model, Cluster(none, 1), 2, **limits)
    assert not plan(model, Cluster(none, 1), 2, offload="none", **limits).fits
    assert tight.best(1)[0].layout.offloads_weights
    assert tight.table().offload.iloc[0] == tight.best(1)[0].layout.offload
    assert {"host, GiB", "on the CPU, s", "host, GB"} <= set(tight.table())
    asked = plan(model, Cluster(room, 1), 2, offload=("none", "weights"), **limits)
    assert {each.layout.offload for each in asked.fits} == {"none", "weights"}
    assert asked.best(1)[0].layout == usual.best(1)[0].layout


def test_compiled_and_float8_kernels_take_a_share_of_eager_ones(model):
    eager, compiled, float8 = (cost(model, rows=32, kernels=kernels) for kernels in KERNELS)
    assert 1.1 < eager.seconds / compiled.seconds <= 1 / KERNELS["compiled"]
    assert 1.3 < eager.seconds / float8.seconds <= 1 / KERNELS["float8"]
    assert eager.memory == compiled.memory == float8.memory
    launches = [cost(model, kernels=kernels).seconds for kernels in KERNELS]
    assert max(launches) == min(launches), "where the host is what is slow, faster kernels change nothing"
    asked = plan(model, Cluster("H100", 4), 4, kernels="float8", recompute="none")
    assert {each.layout.kernels for each in asked.fits} == set(asked.table().kernels) == {"float8"}
    assert "kernels" not in plan(model, Cluster("H100", 4), 4, recompute="none").table()


def test_kernels_that_there_are_not_are_refused_in_a_line(model):
    old = why_not(Layout(kernels="float8"), model, Cluster("A100-80GB-SXM", 1))
    assert old == "A100-80GB-SXM has no tensor cores for float8"
    assert why_not(Layout(kernels="compiled"), model, Cluster("A100-80GB-SXM", 1)) is None
    for wrong in ("fp8", ["float8"]):
        with pytest.raises(ValueError, match="give one of eager, compiled, float8"):
            plan(model, Cluster("H100", 4), 4, kernels=wrong)
    asked = plan(model, Cluster("H100", 1), 1, kernels="float8", recompute="none")
    with pytest.raises(Problem, match="kernels='float8' is an estimate alone"):
        asked.simulated(1)


def test_a_host_without_room_is_told(model):
    full = Cluster("H100", 4, host=HostProfile(memory=2**30))
    found = estimate_layout(model, full, Layout(shard=4, offload="weights"))
    assert found.reason.endswith("GiB of a node's own memory, and it has 1.0")
    assert estimate_layout(model, full, Layout(shard=4)).reason is None


def test_what_cannot_be_offloaded_is_refused_in_a_line(model):
    for fields, words in (
        ({"pipeline": 2, "micro_batches": 2, "offload": "weights"}, "offload beside a pipeline is not estimated"),
        ({"fsdp": False, "offload": "weights"}, "without it they stay on the GPU"),
        ({"offload": "both"}, "not with recompute none"),
    ):
        layout = Layout(**fields)
        assert words in why_not(layout, model, Cluster("H100", layout.gpus)), fields
    wrong = [
        (lambda: Layout(offload="disk"), "offload='disk': give one of none, weights, activations, both"),
        (lambda: plan(model, Cluster(), 8, offload=True), "offload=True: give one of none"),
        (lambda: HostProfile(adam=0), "adam=0: give a number above 0"),
        (lambda: HostProfile(memory=True), "memory=True: give a number above 0"),
        (lambda: HostProfile("pcie9"), "pcie9"),
    ]
    for ask, words in wrong:
        with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
            ask()
        assert words in str(caught.value)


def test_each_gpu_has_the_pci_express_of_its_generation():
    links = {name: Cluster(name).host.link.name for name in ("T4", "A100", "H100")}
    assert links == {"T4": "pcie3", "A100": "pcie4", "H100": "pcie5"}
    assert Cluster("A100").settings().host_link.name == "pcie4"


def test_a_sequence_is_cut_and_so_are_its_activations_and_weights(model):
    whole, cut = cost(model, shard=4), cost(model, shard=2, context=2)
    assert cut.memory["activations"] == pytest.approx(whole.memory["activations"] / 2, rel=0.05)
    assert cut.memory["optimizer"] == whole.memory["optimizer"], "weights are cut over the same four GPUs"
    assert cut.layout.batch == whole.layout.batch / 2
    assert cut.seconds * (1 - cut.waiting) < whole.seconds * (1 - whole.waiting), "kernels take less"


def test_experts_are_gathered_less_the_more_gpus_share_them(model):
    routed = llama(**SIZES, experts=8)
    each_has_all, cut = cost(routed, shard=8), cost(routed, shard=8, experts=8)
    assert cut.moved["link"] < each_has_all.moved["link"]
    assert cut.memory["optimizer"] == pytest.approx(each_has_all.memory["optimizer"], rel=0.01)
    tokens = 2 * SIZES["length"] * SIZES["hidden_size"] * 2  # bytes that two experts a token get
    forward = routed.blocks[1].traced(GPUS["H100"], 1, Split(experts=8), False).forward
    assert [event for event in forward if isinstance(event, Collective)] == [
        Collective("all_to_all", tokens, "experts")
    ] * 2


def test_what_cannot_be_cut_is_refused_in_a_line(model):
    routed, other = llama(**SIZES, experts=8), mpt(length=SIZES["length"])
    for asked, fields, words in (
        (other, {"context": 2}, "context parallelism needs a model of llama(...)"),
        (model, {"context": 3}, "does not divide 2048 tokens into two chunks a GPU"),
        (model, {"shard": 2, "experts": 2}, "does not divide the 0 experts"),
        (routed, {"shard": 3, "experts": 3}, "does not divide the 8 experts"),
        (routed, {"shard": 2, "experts": 4}, "does not divide 2 GPUs that share the weights"),
        (routed, {"tensor": 2}, "tensor parallelism of experts is not estimated"),
    ):
        layout = Layout(**fields)
        assert words in why_not(layout, asked, Cluster("H100", layout.gpus)), fields
    with pytest.raises(Problem, match="per_token=9"):
        llama(**SIZES, experts=8, per_token=9)


def test_the_search_cuts_sequences_where_asked_and_experts_by_itself(model):
    cut = plan(model, Cluster("H100", 8), 8, context=(1, 2), recompute="none", only=1)
    assert {each.layout.context for each in (*cut.fits, *cut.too_large)} == {1, 2}
    assert "context" in cut.table()
    routed = plan(llama(**SIZES, experts=4), Cluster("H100", 8), 8, recompute="none", only=1)
    assert {each.layout.experts for each in (*routed.fits, *routed.too_large)} == {1, 2, 4}
    assert "context" not in routed.table()


def test_more_micro_batches_and_chunks_shrink_the_bubble(model):
    few, many = (cost(model, pipeline=2, micro_batches=count, rows=4, reshard=False) for count in (2, 32))
    assert few.bubble > many.bubble > 0
    # Of a pipeline of p with m micro-batches (p - 1) / (m + p - 1), where all stages take as long.
    assert few.bubble == pytest.approx(1 / 3, abs=0.1)
    chunked = {"pipeline": 2, "schedule": "interleaved", "chunks": 2, "micro_batches": 2, "rows": 4, "reshard": False}
    assert cost(model, **chunked).bubble < few.bubble


def test_a_group_that_leaves_its_node_is_slower(model):
    inside = estimate_layout(model, Cluster("H100", 8, 8), Layout(shard=8))
    outside = estimate_layout(model, Cluster("H100", 8, 2, network="25G"), Layout(shard=8))
    assert outside.seconds > inside.seconds
    assert inside.moved["network"] == 0 < inside.moved["link"]
    # A ring of 8 in 4 nodes leaves each node once: half of its bytes cross the network.
    assert outside.moved["link"] == outside.moved["network"] == inside.moved["link"] / 2


def test_many_micro_batches_cost_what_a_few_more_cost_more(model):
    four, five, ten = (cost(model, shard=2, micro_batches=count).seconds for count in (4, 5, 10))
    assert ten - four == pytest.approx(6 * (five - four), rel=0.02)


def test_the_plan_is_sorted_and_says_why_not(model):
    found = plan(model, Cluster("H100", 8), 16, most_rows=2, recompute=("none", "full"))
    seconds = [each.seconds for each in found.fits]
    assert seconds == sorted(seconds)
    assert found.best(3) == found.fits[:3]
    assert all(each.layout.batch == 16 and each.layout.gpus == 8 for each in found.fits)
    everything = found.table(everything=True)
    assert len(everything) == found.count
    assert set(everything.reason.dropna()) == {reason for _, reason in found.refused}
    assert "stages are more than the 4 layers" in " ".join(found.reasons().index)
    assert "The fastest is" in found.draw(3).summary


def test_what_does_not_fit_is_told_with_its_largest_part():
    large = llama(layers=80, hidden_size=8192, heads=64, kv_heads=8, intermediate_size=28672, length=2048)
    ours = estimate_layout(large, Cluster("A100", 1), Layout())
    assert ours.reason.startswith("needs ")
    assert "optimizer" in ours.reason
    assert ours.reason.count("1.9 for CUDA and NCCL") == 1
    assert ours.reason.endswith("a A100 has 37.3")


def test_what_cuda_and_nccl_take_is_kept_free(model):
    alone, in_groups = cost(model), cost(model, data=2, shard=2, tensor=2)
    assert alone.reserve == CONTEXT
    assert in_groups.reserve == CONTEXT + 3 * BUFFERS
    for spare, fits in ((-1.0, False), (0.0, True)):
        gpu = dataclasses.replace(GPUS["H100"], memory=alone.peak + alone.reserve + spare)
        assert (estimate_layout(model, Cluster(gpu, 1), Layout()).reason is None) == fits


def test_a_ring_over_nodes_takes_their_links_too():
    cluster = Cluster("H100", 32, 8)
    groups = Groups(data=cluster.group(4, 8), shard=cluster.group(8, 1), tensor=cluster.group(32, 1))
    assert groups.ways("data") == ("network",)
    assert groups.ways("shard") == ("link",)
    assert groups.ways("tensor") == ("link", "network")


def test_what_a_gather_needs_goes_before_kernels_that_have_not_begun():
    gpu, alone = GPUS["H100"], Cluster("H100", 1).group(1, 1)
    replay = Replay(gpu, Groups(alone, alone, alone))
    replay.run([1.0, 1.0])
    first = gpu.launch + 1.0
    cast = replay.urgent(0.0, 0.25)
    assert cast == pytest.approx(first + 0.25)
    assert replay.compute == pytest.approx(first + 1.25)
    assert replay.urgent(cast, 0.25) == pytest.approx(first + 0.5)
    assert replay.finish() == pytest.approx(first + 1.5)


def test_stages_cut_by_time_give_a_heavy_head_fewer_layers(model):
    words, layer, head = model.blocks[0], model.blocks[1], model.blocks[-1]
    parts = cut_by_time(model, 2, {words: 0.0, layer: 1.0, head: 2.0})
    assert sum(parts, ()) == model.blocks
    layers = [part.count(layer) for part in parts]
    assert layers[0] == layers[1] + 2 - (model.layers % 2)


def test_a_gpu_at_its_limit_of_power_trains_slower():
    gpu = GPUS["H100"]
    rates = [each.rate(torch.bfloat16)[0] for each in (gpu.in_training(watts=500), gpu.in_training(), gpu)]
    assert rates == sorted(set(rates))
    assert gpu.in_training().in_training() == gpu.in_training()
    with pytest.raises(ValueError, match="its own limit of power is not known"):
        GPUS["T4"].in_training(watts=50)


def test_mpt_has_two_products_where_llama_has_three():
    ours, llamas = (make(layers=1, hidden_size=256, heads=4) for make in (mpt, llama))
    numbers = [sum(p.numel() for p in each.blocks[1].make(Split()).parameters()) for each in (ours, llamas)]
    assert numbers == [12 * 256**2 + 2 * 256, 4 * 256**2 + 3 * 256 * 14336 + 2 * 256]
    assert estimate_layout(ours, Cluster("H100", 8), Layout(shard=8)).seconds > 0


def test_kernels_beside_a_collective_are_slower_and_what_follows_waits_for_it():
    gpu = dataclasses.replace(GPUS["H100"], launch=0.0)
    groups = Groups(*(Cluster("H100", 8).group(ranks, 1) for ranks in (1, 1, 8)))
    crowded = gpu.multiprocessors / (gpu.multiprocessors - CHANNELS)
    talking = groups.tensor.seconds("all_gather", 2**30)
    for seconds in (talking / 2, talking * 2):  # of a kernel beside it, shorter and longer
        replay = Replay(gpu, groups)
        replay.run([Begin("all_gather", 2**30), seconds, Wait("all_gather"), 1.0])
        assert replay.finish() == pytest.approx(max(talking, seconds * crowded) + 1.0)


def test_nanotrons_layer_has_the_work_of_llamas_in_fewer_kernels():
    sizes = {"layers": 2, "hidden_size": 1024, "heads": 8, "intermediate_size": 4096, "length": 2048}
    gpu = GPUS["H100"]
    ours, plain = (make(**sizes).blocks[1].traced(gpu, 2, Split(), False) for make in (nanotron, llama))
    assert ours.numbers == plain.numbers
    assert len(ours.forward) < len(plain.forward)
    assert sum(ours.forward) < sum(plain.forward)
    assert sum(ours.backward) < sum(plain.backward)
    divided = nanotron(**sizes).blocks[1].traced(gpu, 2, Split(4), False)
    assert divided.numbers - 2 * 1024 == (ours.numbers - 2 * 1024) / 4
    gathered = 2 * 2048 * 1024 * 2  # bytes of all tokens
    begun = [event for event in divided.forward if isinstance(event, Begin)]
    assert begun == [Begin("all_gather", gathered)] * 2
    assert divided.forward.count(Collective("reduce_scatter", gathered)) == 2
    assert divided.backward.count(Begin("reduce_scatter", gathered)) == 2
    assert divided.forward.count(Wait("all_gather")) == 2


def test_a_pipeline_between_nodes_launches_late_where_the_network_says_so(model):
    late = dataclasses.replace(NETWORKS["EFA"], late=1e-3)
    layout = Layout(tensor=2, pipeline=2, micro_batches=4, reshard=False)

    def seconds(network, per_node):
        cluster = Cluster("H100", 4, per_node, network=network)
        return estimate_layout(model, cluster, layout).seconds

    punctual = dataclasses.replace(NETWORKS["EFA"], late=0.0)
    assert seconds(late, 4) == seconds(punctual, 4)
    assert seconds(late, 2) > 2 * seconds(punctual, 2)
    assert NETWORKS["400G"].late == 0.0


def test_any_module_is_planned_by_its_parts():
    module = nn.Sequential(*(nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)) for _ in range(4)))
    weights = sum(parameter.numel() for parameter in module.parameters())
    found = plan(of_module(module, torch.empty(512)), Cluster("T4", 4, link="pcie3"), 64)
    assert found.fits
    alone = estimate_layout(found.model, Cluster("T4", 1), Layout())
    assert alone.memory["weights"] == weights * 4
    assert "plain nn.Module" in " ".join(found.reasons().index)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: llama(layers=0), "layers=0: give a whole number, 1 or more"),
        (lambda: llama(hidden_size=100, heads=32), "hidden_size=100 is no even multiple of heads=32"),
        (lambda: llama(heads=32, kv_heads=5), "heads=32 is no multiple of kv_heads=5"),
        (lambda: Cluster("H1000"), "H1000"),
        (lambda: Cluster(gpus=12), "12 GPUs do not fill nodes of 8"),
        (lambda: plan(llama(), Cluster(), 0), "batch=0: give a whole number of rows"),
        (lambda: plan(llama(), Cluster(), 8, colour=1), "a layout has no 'colour'"),
        (lambda: plan(llama(), Cluster(), 8, tensor=3), "no layout uses 8 GPUs and divides a batch of 8 with tensor=3"),
        (lambda: Cluster(host="pcie4"), "host='pcie4': give a HostProfile, such as HostProfile(link='pcie4')"),
        (lambda: plan(nn.Linear(2, 2), Cluster(), 8), "needs `row`"),
        (lambda: of_module(nn.ReLU(), torch.empty(2)), "has no weights"),
        (lambda: of_module(nn.Linear(2, 2), torch.empty(3)), "block 0, Linear, cannot take (1, 3)"),
    ],
)
def test_what_is_asked_wrongly_is_one_clear_line(ask, words):
    with pytest.raises(Problem) as caught:
        ask()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_prints_the_best_layouts():
    from typer.testing import CliRunner

    from utils.course.cli import app

    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    done = CliRunner().invoke(
        app, ["plan", *sizes, "--batch=4", "--gpus=4", "--per-node=4", "--best=2", "--simulate=1"]
    )
    assert done.exit_code == 0, done.output
    assert "fit" in done.output
    assert "tokens/s/GPU" in done.output
    assert "simulated, s" in done.output


def test_the_few_fastest_are_known_without_the_time_of_all(model):
    cluster = Cluster("H100", 16)
    whole, few = plan(model, cluster, 32), plan(model, cluster, 32, only=3)
    assert [each.seconds for each in few.best(3)] == [each.seconds for each in whole.best(3)]
    assert {each.layout for each in few.fits} == {each.layout for each in whole.fits}
    assert few.too_large == whole.too_large
    assert sum(each.seconds == each.seconds for each in few.fits) < len(whole.fits)


@pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")
def test_settings_of_a_cluster():
    cluster = Cluster("A100", gpus=16, per_node=4, link="nvlink3", network="100G")
    settings = cluster.settings()
    assert (settings.count, settings.nodes) == (16, 4)
    assert (settings.gpu, settings.link, settings.network) == (cluster.gpu, cluster.link, cluster.network)
    assert settings.memory == cluster.gpu.memory
    some = cluster.settings(ranks=8, count=1, compute=False)
    assert (some.count, some.nodes, some.compute) == (1, 2, False)
    assert cluster.settings(ranks=2).nodes == 1


def test_the_best_are_simulated_beside_their_estimates(model):
    found = plan(model, Cluster("H100", 8), 64, rows=4, recompute="none", pipeline=(1, 2))
    table = found.simulated(2)
    alone = [number for number, each in enumerate(found.fits, 1) if each.layout.pipeline == 1]
    assert list(table.place) == alone[:2]
    assert table["step, s"].iloc[0] == pytest.approx(found.fits[alone[0] - 1].seconds)
    assert (table["simulated, s"] > 0).all()
    assert table["time off, %"].abs().max() < 15
    assert table["memory off, %"].abs().max() < 30


@THOROUGH
@pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")
def test_a_gpu_of_ones_own_is_simulated_by_its_own_profile(model):
    half = dataclasses.replace(GPUS["H100"], name="half an H100", flops=GPUS["H100"].flops / 2, fast={})
    table = plan(model, Cluster(half, 8), 64, rows=4, recompute="none", shard=8, tensor=1).simulated(1)
    assert table["time off, %"].abs().max() < 15
    usual = plan(model, Cluster("H100", 8), 64, rows=4, recompute="none", shard=8, tensor=1)
    assert table["simulated, s"][0] > 2 * usual.fits[0].seconds


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"pipeline": 2}, "a pipeline, whose ranks do different things"),
        ({"tensor": 8, "kv_heads": 1}, "nothing fits or makes sense"),
    ],
)
def test_what_cannot_be_simulated_is_one_clear_line(limits, words):
    sizes = SIZES | {name: limits.pop(name) for name in list(limits) if name in SIZES}
    with pytest.raises(Problem, match=words):
        plan(llama(**sizes), Cluster("H100", 8), 16, rows=1, recompute="none", **limits).simulated(1)


def test_only_llamas_are_simulated():
    found = plan(of_module(nn.Linear(8, 8), torch.empty(8)), Cluster("T4", 2, link="pcie3"), 4)
    with pytest.raises(Problem, match=r"only models of llama\(\.\.\.\) are simulated"):
        found.simulated(1)


def test_shards_in_a_node_leave_room_for_tensor_parallelism():
    """Ranks of a tensor group are neighbours, so shard 8 x tensor 4 spans four nodes of eight."""
    small = llama(layers=8, hidden_size=1024, heads=8, kv_heads=4, intermediate_size=4096, vocab_size=8192, length=2048)
    cluster, limits = Cluster("H100", 64), {"rows": 1, "recompute": "none"}
    inside, anywhere = (plan(small, cluster, 64, shards_in_node=only, **limits) for only in (True, False))

    def spanned(found):
        return {each.layout.shard * each.layout.tensor for each in found.fits if each.layout.shard > 1}

    assert max(spanned(inside)) == 8
    assert max(spanned(anywhere)) == 64
    unsharded = [{each.layout for each in found.fits if each.layout.shard == 1} for found in (inside, anywhere)]
    assert unsharded[0] == unsharded[1]


@THOROUGH  # lesson 13 plans both
def test_the_network_decides_between_the_two_plans_of_lesson_13():
    """Unrestricted, FSDP over everything wins at 400 and 200 Gb/s and loses to a pipeline at 100."""
    large = llama(
        layers=80, hidden_size=8192, heads=64, kv_heads=8, intermediate_size=28672, vocab_size=128256, length=4096
    )
    limits = {"rows": 1, "recompute": ("none", "full"), "only": 1}
    stages, speeds = {}, {}
    for network in ("400G", "200G", "100G"):
        cluster = Cluster("H100", 1024, network=network)
        found = [plan(large, cluster, 2048, **limits, **more).fits[0] for more in ({"shards_in_node": True}, {})]
        stages[network] = [each.layout.pipeline for each in found]
        speeds[network] = found[1].tokens_per_second / found[0].tokens_per_second
    assert stages == {"400G": [8, 1], "200G": [8, 1], "100G": [8, 8]}
    assert all(1.05 < speed < 1.12 for speed in speeds.values()), speeds
