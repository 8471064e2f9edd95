"""What memory is for: the kinds add up to what the device counts, at every moment, and each is what it is called."""

import gc
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import simgpu
from simgpu.memory import BLOCK, in_units
from utils.observe.memory import MemoryUse, memory_of
from utils.observe.memory_picture import KINDS, STYLE

GPU0, GPU1 = "simgpu:0", "simgpu:1"
WIDTH, DEPTH, ROWS = 128, 6, 512


@pytest.fixture(autouse=True)
def two_empty_gpus():
    simgpu.enable(count=3)
    simgpu.enable(count=2)
    gc.disable()  # what cannot be reached any more stays, so that it would be seen
    yield
    gc.enable()
    simgpu.enable(count=2)


def stack(device=GPU0, depth=DEPTH):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(depth)]).to(device)


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.part0, self.part1 = stack(GPU0, 2), stack(GPU1, 4)

    def forward(self, x):
        return self.part1(self.part0(x).to(GPU1))


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = stack()

    def forward(self, x):
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False)
        return x


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p),
    "adam, one by one": lambda p: torch.optim.Adam(p, foreach=False),
}
MODELS = {"stack": stack, "split": Split, "recomputed": Recomputed}


def step_of(model, optimizer, rows=ROWS):
    x = torch.randn(rows, WIDTH).to(GPU0)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


class Watched(NamedTuple):
    memory: MemoryUse
    peak: list[int]  # of each device, when the step before was not watched
    now: list[int]  # what each device holds afterwards


def watched(model, make_optimizer, steps_before=1, rows=ROWS):
    optimizer = make_optimizer(model.parameters())
    step = step_of(model, optimizer, rows)
    for _ in range(steps_before):
        for device in (GPU0, GPU1):
            torch.simgpu.reset_peak_memory_stats(device)
        step()
    peak = [torch.simgpu.max_memory_allocated(device) for device in (GPU0, GPU1)]
    with memory_of(model, optimizer) as memory:
        step()
    return Watched(memory, peak, [torch.simgpu.memory_allocated(device) for device in (GPU0, GPU1)])


def in_blocks(tensors):
    return sum(-(-tensor.nbytes // BLOCK) * BLOCK for tensor in tensors)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_the_kinds_add_up_to_what_the_device_counts(model, optimizer):
    memory, peak, now = watched(MODELS[model](), OPTIMIZERS[optimizer], steps_before=2)
    assert len(memory.devices) == (2 if model == "split" else 1)
    for number, device in enumerate(memory.devices):
        kinds = memory.over_time(device)
        assert sum(memory.peak(device).values()) == peak[number]
        assert sum(memory.held(device).values()) == now[number]
        assert min(map(min, kinds.values())) >= 0
        assert {len(sizes) for sizes in kinds.values()} == {len(memory.phases)}


def test_a_step_of_adam_has_five_times_the_weights_at_its_peak_and_four_times_afterwards():
    model = stack()
    memory = watched(model, OPTIMIZERS["adam"], rows=1).memory
    weights, batch = in_blocks(model.parameters()), WIDTH * 4
    parts = {"weights": weights, "gradients": weights, "optimizer state": 2 * weights, "activations": batch}
    assert memory.peak(GPU0) == parts | {"from before": 0, "temporary": weights}
    assert memory.held(GPU0) == parts | {"from before": 0, "temporary": 0}
    assert memory.phases[memory.fullest(GPU0)] == "optimizer"


def test_one_by_one_adam_needs_less_for_a_moment():
    memory = watched(stack(), OPTIMIZERS["adam, one by one"]).memory
    temporary = zip(memory.phases, memory.over_time(GPU0)["temporary"], strict=True)
    most = max(size for phase, size in temporary if phase == "optimizer")
    assert most < memory.held(GPU0)["weights"] / 2


def test_the_state_that_the_first_step_makes_is_known():
    memory = watched(stack(), OPTIMIZERS["momentum"], steps_before=0).memory
    state = memory.over_time(GPU0)["optimizer state"]
    assert state[0] == 0
    assert state[-1] == memory.held(GPU0)["weights"]
    assert memory.phases[next(place for place, size in enumerate(state) if size)] == "optimizer"


def test_each_phase_takes_and_gives_what_it_should():
    memory = watched(stack(), OPTIMIZERS["sgd"]).memory
    kinds = memory.over_time(GPU0)
    backward = memory.phases.index("backward")
    assert set(kinds["weights"]) == {memory.held(GPU0)["weights"]}
    assert kinds["gradients"][backward - 1] == 0  # zero_grad has freed those of the step before
    assert kinds["gradients"][memory.phases.index("optimizer")] == kinds["weights"][0]
    layer = ROWS * WIDTH * 4
    assert kinds["activations"][backward - 1] == (1 + DEPTH) * layer  # the batch, and what each Tanh gave
    assert kinds["activations"][-1] == layer


def test_the_second_micro_batch_adds_to_the_gradients_of_the_first():
    model = stack()
    x = torch.randn(ROWS, WIDTH).to(GPU0)
    with memory_of(model) as memory:
        for piece in x.chunk(2):
            model(piece).sum().backward()
    gradients = memory.over_time(GPU0)["gradients"]
    assert max(gradients) == gradients[-1] == in_blocks(model.parameters())
    assert max(memory.over_time(GPU0)["temporary"]) > 0


def test_a_split_model_has_its_weights_and_activations_where_its_parts_are():
    model = Split()
    memory = watched(model, OPTIMIZERS["adam"]).memory
    for device, part, layers in ((GPU0, model.part0, 2), (GPU1, model.part1, 4)):
        assert memory.peak(device)["weights"] == in_blocks(part.parameters())
        assert memory.held(device)["optimizer state"] == 2 * in_blocks(part.parameters())
        most = max(memory.over_time(device)["activations"])
        assert most == (1 + layers) * ROWS * WIDTH * 4  # what comes in counts on both


def test_recomputed_activations_are_there_again_in_the_backward_pass_and_a_few_at_a_time():
    kept = watched(stack(), OPTIMIZERS["sgd"]).memory
    memory = watched(Recomputed(), OPTIMIZERS["sgd"]).memory
    activations = memory.over_time(GPU0)["activations"]
    backward = memory.phases.index("backward")
    layer = ROWS * WIDTH * 4
    assert activations[backward - 1] == (1 + DEPTH) * layer  # what goes into each part, and the last output
    assert max(activations[backward:]) > activations[backward - 1]
    assert max(activations) <= max(kept.over_time(GPU0)["activations"]) + 2 * layer


def test_without_numbers_the_memory_is_the_same():
    with_numbers = watched(stack(), OPTIMIZERS["adam"]).memory
    simgpu.enable(count=2, compute=False)
    without = watched(stack(), OPTIMIZERS["adam"]).memory
    assert without.over_time(GPU0) == with_numbers.over_time(GPU0)
    assert without.source == "simulated: 2 x V100, nvlink2, virtual clock, shapes only"


def test_measuring_keeps_nothing_alive_and_leaves_nothing_behind():
    model = stack()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    step = step_of(model, optimizer)
    step()
    before = torch.simgpu.memory_allocated(0)
    with memory_of(model, optimizer) as memory:
        step()
    assert torch.simgpu.memory_allocated(0) == before
    seen = len(memory.phases)
    broken_off = memory_of(model, optimizer)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), broken_off:
        model(torch.ones(1, WIDTH + 1, device=GPU0))
    assert broken_off.held(GPU0)["weights"] == in_blocks(model.parameters())
    ended = len(broken_off.phases)
    step()
    assert (len(memory.phases), len(broken_off.phases)) == (seen, ended)
    assert torch.simgpu.memory_allocated(0) == before


def test_what_was_there_before_is_not_called_temporary():
    alone = watched(stack(), OPTIMIZERS["adam"]).memory.over_time(GPU0)
    left_by_others = torch.ones(3 * WIDTH, WIDTH, device=GPU0)
    kinds = watched(stack(), OPTIMIZERS["adam"]).memory.over_time(GPU0)
    assert kinds["temporary"] == alone["temporary"]
    assert [size - left_by_others.nbytes for size in kinds["from before"]] == alone["from before"]


def test_what_is_let_go_meanwhile_is_no_longer_from_before():
    model, left_by_others = stack(), [torch.ones(3 * WIDTH, WIDTH, device=GPU0)]
    with memory_of(model) as memory:
        model[0](torch.ones(1, WIDTH, device=GPU0))
        left_by_others.clear()
        model(torch.ones(1, WIDTH, device=GPU0))
    before = memory.over_time(GPU0)["from before"]
    assert (before[0], before[-1]) == (3 * WIDTH * WIDTH * 4, 0)


def test_the_state_of_an_optimizer_that_is_not_told_of_is_from_before():
    model = stack()
    step = step_of(model, OPTIMIZERS["adam"](model.parameters()), rows=1)
    step()
    with memory_of(model) as memory:
        step()
    weights = in_blocks(model.parameters())
    assert (memory.held(GPU0)["from before"], memory.held(GPU0)["temporary"]) == (2 * weights, 0)


def test_what_was_measured_is_freed_with_its_last_name_and_not_at_the_next_collection():
    empty = torch.simgpu.memory_allocated(0)
    gc.disable()
    try:
        model = stack()
        optimizer = OPTIMIZERS["adam"](model.parameters())
        with memory_of(model, optimizer) as memory:
            step_of(model, optimizer)()
        del model, optimizer, memory
        assert torch.simgpu.memory_allocated(0) == empty
    finally:
        gc.enable()


def test_a_gradient_may_be_gone_before_it_is_asked_about():
    """As where each weight is updated within backward, and its gradient freed."""
    model = stack()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    with memory_of(model) as memory:
        model(torch.ones(1, WIDTH, device=GPU0)).sum().backward()
    assert memory.held(GPU0)["gradients"] == 0
    assert memory.peak(GPU0)["weights"] == in_blocks(model.parameters())


def test_the_numbers_are_those_of_a_step_that_is_not_watched():
    results = []
    for watch in (False, True):
        torch.manual_seed(0)
        model = stack()
        optimizer = OPTIMIZERS["momentum"](model.parameters())
        step = step_of(model, optimizer)
        if watch:
            with memory_of(model, optimizer):
                step()
        else:
            step()
        results.append([parameter.detach().cpu() for parameter in model.parameters()])
    assert all(map(torch.equal, *results))


def test_a_model_on_the_cpu_is_refused():
    with pytest.raises(ValueError, match="move the model to its GPUs first"):
        memory_of(stack("cpu"))


def test_the_picture_says_the_same_in_words():
    memory = watched(Split(), OPTIMIZERS["adam"]).memory
    picture = memory.draw("One step")
    at = memory.fullest(GPU1)
    place = f"operator {at} of {len(memory.phases) - 2}, in {memory.phases[at]}"
    assert f"simgpu:1 is fullest after {place}, with {in_units(sum(memory.peak(GPU1).values()))}: " in picture.alt
    assert picture.summary in picture.alt
    assert "(simulated: 2 x V100, nvlink2, virtual clock)" in picture.summary
    figure = picture.figure
    assert [axes.get_ylabel() for axes in figure.axes] == ["simgpu:0, MiB", "simgpu:1, MiB"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["forward", "backward", "optimizer"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*KINDS, "fullest"]
    assert len({style["hatch"] for style in STYLE.values()}) == len(KINDS)
    top = max(patch.get_datalim(axes.transData).ymax for axes in figure.axes[1:] for patch in axes.collections)
    assert top == pytest.approx(sum(memory.peak(GPU1).values()) / 2**20)
    assert picture.png().startswith(b"\x89PNG")
