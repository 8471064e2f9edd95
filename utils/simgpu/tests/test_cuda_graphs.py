"""CUDA graphs: a replay gives the numbers of the eager run, and costs the host one launch."""

import contextlib
import copy
import threading
import warnings

import pytest
import torch
from torch import nn

import simgpu
from simgpu.profiles import GPUS

DEVICE = "simgpu:0"
LAUNCH = GPUS["V100"].launch  # seconds: of the machine that the tests begin with


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)


def rows(count, width, seed):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def captured(run):
    """A graph of what `run` launches, and what it has returned."""
    graph = torch.simgpu.CUDAGraph()
    with torch.simgpu.graph(graph):
        out = run()
    return graph, out


def replayed(run):
    """The records of what a replay launches, and the seconds that it takes the host."""
    graph, _ = captured(run)
    start = simgpu.now()
    graph.replay()
    return simgpu.log(since=start), simgpu.now() - start


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_inference_on_new_inputs(without_gradients):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(DEVICE)
    with without_gradients():
        static = torch.zeros(3, 8, device=DEVICE)
        graph, out = captured(lambda: model(static))
        for seed in range(3):
            static.copy_(rows(3, 8, seed))
            graph.replay()
            assert torch.equal(out.cpu(), model(rows(3, 8, seed).to(DEVICE)).cpu())


def train(graphed):
    """Losses of four steps of the example in PyTorch's notes on CUDA graphs, and all parameters and buffers after."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, capturable=True)
    inputs, targets = torch.ones(6, 8, device="cuda"), torch.ones(6, 4, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    if graphed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
    losses = []
    for seed in range(4):
        inputs.copy_(rows(6, 8, seed))
        targets.copy_(rows(6, 4, seed))
        if graphed:
            graph.replay()
        else:
            loss = step()
        losses.append(loss.item())
    return losses, [value.cpu() for value in model.state_dict().values()]


def test_a_whole_training_step():
    with simgpu.as_cuda():
        (expected, weights), (found, graphed) = train(False), train(True)
    assert found == expected
    assert all(torch.equal(one, other) for one, other in zip(weights, graphed, strict=True))


def test_attention_and_lstm_in_mixed_precision():
    layers = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.LSTM(8, 8, batch_first=True)
    layers = [layer.to(DEVICE) for layer in layers]
    static = torch.zeros(2, 4, 8, device=DEVICE)

    def step():
        for parameter in (*layers[0].parameters(), *layers[1].parameters()):
            parameter.grad = None
        with torch.autocast("simgpu", torch.bfloat16, cache_enabled=False):
            out = layers[1](layers[0](static))[0]
        out.float().sum().backward()
        return out, layers[0].linear1.weight.grad

    graph, out = captured(step)
    static.copy_(rows(8, 8, 1).view(2, 4, 8))
    torch.simgpu.manual_seed(1)
    graph.replay()
    found = [value.detach().cpu() for value in out]
    torch.simgpu.manual_seed(1)
    assert all(torch.equal(one, other.detach().cpu()) for one, other in zip(found, step(), strict=True))


def test_views_and_operators_in_place():
    values = torch.zeros(2, 3, device=DEVICE)

    def run():
        counted = torch.arange(3, device=DEVICE).mul_(2)  # begins anew with each replay
        values[1].add_(counted)
        return values.t()[1:].contiguous(), counted

    graph, (part, counted) = captured(run)
    assert values.sum() == 0  # nothing has run
    for _ in range(2):
        graph.replay()
    assert values.tolist() == [[0, 0, 0], [0, 4, 8]]
    assert part.tolist() == [[0, 4], [0, 8]]
    assert counted.tolist() == [0, 2, 4]


def test_a_capture_leaves_everything_as_it_was():
    norm = nn.BatchNorm1d(4).to(DEVICE)
    before = copy.deepcopy(norm.state_dict())
    state = torch.simgpu.get_rng_state()
    _, out = captured(lambda: nn.functional.dropout(norm(torch.ones(3, 4, device=DEVICE))))
    assert all(torch.equal(value.cpu(), before[name].cpu()) for name, value in norm.state_dict().items())
    assert torch.equal(torch.simgpu.get_rng_state(), state)
    assert out.isnan().all()  # garbage, until a replay


def test_dropout_draws_at_each_replay():
    ones = torch.ones(100, device=DEVICE)
    graph, out = captured(lambda: nn.functional.dropout(ones))
    torch.simgpu.manual_seed(3)
    found = []
    for _ in range(2):
        graph.replay()
        found.append(out.tolist())
    assert found[0] != found[1]
    torch.simgpu.manual_seed(3)
    assert found == [nn.functional.dropout(ones).tolist() for _ in range(2)]


@pytest.mark.parametrize("compute", [True, False])
def test_a_replay_costs_the_host_one_launch(compute):
    simgpu.enable(count=1, compute=compute)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(DEVICE)
    x = torch.zeros(32, 64, device=DEVICE)
    start = simgpu.now()
    model(x)
    eager = simgpu.log(since=start)
    assert simgpu.now() - start == pytest.approx(3 * LAUNCH)
    records, seconds = replayed(lambda: model(x))
    assert seconds == pytest.approx(LAUNCH)
    for one, other in zip(records, eager, strict=True):
        assert (one.name, one.bytes, one.flops) == (other.name, other.bytes, other.flops)
        assert one[-3:] == other[-3:]  # module, phase and label
        assert one.end - one.start == pytest.approx(other.end - other.start)
    assert records[1].start == records[0].end  # where the eager kernels wait for their launches


def test_copies_of_pinned_memory():
    source, target = torch.zeros(4).pin_memory(), torch.zeros(4).pin_memory()
    values = torch.zeros(4, device=DEVICE)

    def run():
        values.copy_(source, non_blocking=True)
        target.copy_(values * 2, non_blocking=True)

    graph, _ = captured(run)
    source.fill_(3)
    start = simgpu.now()
    graph.replay()
    assert simgpu.now() - start == pytest.approx(LAUNCH)
    assert [record.kind for record in simgpu.log(since=start)] == ["h2d", "kernel", "d2h"]
    torch.simgpu.synchronize()
    assert target.tolist() == [6] * 4


def test_a_number_on_the_cpu_is_taken_at_the_capture():
    factor, ones = torch.tensor(2.0), torch.ones(2, device=DEVICE)
    graph, out = captured(lambda: ones * factor)
    factor.fill_(5)
    graph.replay()
    assert out.tolist() == [2, 2]


def test_graphed_callables():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4).to(DEVICE)
    plain = copy.deepcopy(layer)
    graphed = torch.simgpu.make_graphed_callables(layer, (torch.zeros(2, 4, device=DEVICE, requires_grad=True),))
    found = []
    for call in (graphed, plain):
        x = rows(2, 4, 1).to(DEVICE).requires_grad_()
        out = call(x)
        out.square().sum().backward()
        found.append([value.detach().tolist() for value in (out, x.grad, call.weight.grad)])
    assert found[0] == found[1]


def test_who_captures():
    stream = torch.simgpu.Stream()
    seen = []

    def other():
        seen.append((torch.simgpu.is_current_stream_capturing(), (torch.ones(2, device=DEVICE) + 1).tolist()))

    def run():
        assert torch.simgpu.is_current_stream_capturing()
        assert torch.simgpu.current_stream().is_capturing()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with pytest.warns(UserWarning, match="CUDA Graph is empty"):
        captured(run)
    assert seen == [(False, [2, 2])]
    assert not torch.simgpu.is_current_stream_capturing()
    assert not stream.is_capturing()


def test_a_replay_on_a_stream_that_did_not_wait_is_told():
    x = torch.ones(1000, 1000, device=DEVICE)
    graph, _ = captured(lambda: x @ x)
    stream = torch.simgpu.Stream()
    for _ in range(3):
        x = x.copy_(x @ x)
    with torch.simgpu.stream(stream), pytest.warns(RuntimeWarning, match="has not finished writing"):
        graph.replay()
    torch.simgpu.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.replay()


REFUSED = {
    "item": (lambda x: x.sum().item(), "unless the CPU tensor is pinned"),
    "to pageable memory": (lambda x: x.cpu(), "unless the CPU tensor is pinned"),
    "from pageable memory": (lambda x: x.copy_(torch.ones(4)), "unless the CPU tensor is pinned"),
    "a tensor of numbers": (lambda x: torch.tensor([1.0], device=DEVICE), "unless the CPU tensor is pinned"),
    "synchronize": (lambda x: torch.simgpu.synchronize(), "not permitted when stream is capturing"),
    "another stream": (lambda x: torch.simgpu.default_stream().synchronize(), "not permitted when stream is capturing"),
    "a query": (lambda x: torch.simgpu.current_stream().query(), "not permitted when stream is capturing"),
    "a length that values decide": (lambda x: x.nonzero(), "not permitted when stream is capturing"),
    "a seed": (lambda x: torch.manual_seed(1), "Cannot seed a GPU's generator"),
    "the state of a generator": (lambda x: torch.simgpu.get_rng_state(), "Cannot seed a GPU's generator"),
    "printing": (lambda x: repr(x), "not permitted when stream is capturing"),
    "another GPU": (lambda x: torch.ones(2, device="simgpu:1") + 1, "of one GPU: .*simgpu:0, and here simgpu:1"),
    "a copy to another GPU": (lambda x: x.to("simgpu:1"), "of one GPU: .*simgpu:0, and here simgpu:1"),
    "a capture in a capture": (lambda x: torch.simgpu.CUDAGraph().capture_begin(), "one capture at a time"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_capture_refuses(what):
    run, words = REFUSED[what]
    x = torch.zeros(4, device=DEVICE)
    with pytest.raises(RuntimeError, match=words) as refused:
        captured(lambda: run(x.add_(1)))
    assert "\n" not in str(refused.value)
    assert not torch.simgpu.is_current_stream_capturing()
    assert x.add_(1).tolist() == [1] * 4  # as if nothing had been


def test_no_graph_becomes_part_of_another():
    graph, _ = captured(lambda: torch.ones(2, device=DEVICE))
    with pytest.raises(RuntimeError, match="cannot become part of another"):
        captured(graph.replay)


def test_a_capture_that_goes_on_after_a_refusal_gives_no_graph():
    graph = torch.simgpu.CUDAGraph()

    def run():
        with torch.simgpu.graph(graph), contextlib.suppress(RuntimeError):
            torch.simgpu.synchronize()

    with pytest.raises(RuntimeError, match="capture has failed"):
        run()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with torch.simgpu.graph(graph):  # and it can be captured again
        torch.ones(2, device=DEVICE)


MISUSES = {
    "no capture": (lambda graph: graph.replay(), RuntimeError, "without a preceding successful capture"),
    "no begin": (lambda graph: graph.capture_end(), RuntimeError, r"capture_begin\(\) begins one"),
    "no pool": (lambda graph: graph.pool(), RuntimeError, "without a preceding successful capture"),
    "the default stream": (lambda graph: graph.capture_begin(), RuntimeError, "on a non-default stream"),
    "a mode": (lambda graph: graph.capture_begin(capture_error_mode="x"), RuntimeError, "Unknown capture error mode"),
    "a pool": (lambda graph: graph.capture_begin(3), TypeError, "is no pool"),
    "no graph": (lambda graph: torch.simgpu.graph(None), TypeError, "captured into a torch.cuda.CUDAGraph"),
}


@pytest.mark.parametrize("what", MISUSES)
def test_misuse_of_a_graph(what):
    misuse, kind, words = MISUSES[what]
    with pytest.raises(kind, match=words):
        misuse(torch.simgpu.CUDAGraph())


def test_a_graph_is_captured_once_and_belongs_to_its_machine():
    x = torch.zeros(2, device=DEVICE)
    graph, _ = captured(lambda: x + 1)
    assert graph.pool() != torch.simgpu.graph_pool_handle()
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.simgpu.graph(graph):
        pass
    graph.replay()
    simgpu.enable(count=1)
    with pytest.raises(RuntimeError, match="Capture it again"):
        graph.replay()


def test_a_capture_ends_with_its_machine():
    with torch.simgpu.stream(torch.simgpu.Stream()):
        graph = torch.simgpu.CUDAGraph()
        graph.capture_begin()
        simgpu.enable(count=1)
    torch.simgpu.synchronize()
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]
    del graph


def test_the_names_of_cuda():
    with simgpu.as_cuda():
        assert isinstance(torch.cuda.CUDAGraph, type)
        assert torch.cuda.CUDAGraph | None  # as an annotation
        assert torch.cuda.graphs.CUDAGraph is torch.cuda.CUDAGraph
        assert torch.cuda.graphs.graph is torch.cuda.graph
        assert not torch.cuda.graphs.is_current_stream_capturing()
