"""Random numbers: each simulated GPU has a generator of its own, as each GPU has on CUDA."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import simgpu

GPU0, GPU1 = "simgpu:0", "simgpu:1"


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)
    yield
    simgpu.enable(count=2)


def states():
    return torch.get_rng_state().tolist(), *(state.tolist() for state in torch.simgpu.get_rng_state_all())


DRAWS = {
    "rand": lambda x: torch.rand(x.shape, device=x.device),
    "randn_like": lambda x: torch.randn_like(x),
    "randint": lambda x: torch.randint(100, (8,), device=x.device),
    "randint_like": lambda x: torch.randint_like(x, 100),
    "randperm": lambda x: torch.randperm(50, device=x.device),
    "normal_": lambda x: x.clone().normal_(),
    "uniform_": lambda x: x.clone().uniform_(),
    "random_": lambda x: x.clone().random_(),
    "exponential_": lambda x: x.clone().exponential_(),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.5),
    "poisson": lambda x: torch.poisson(20 * x),
    "normal of tensors": lambda x: torch.normal(x, x),
    "multinomial": lambda x: torch.multinomial(x, 20, replacement=True),
    "dropout": lambda x: functional.dropout(x),
    "dropout2d": lambda x: functional.dropout2d(x[None]),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, training=True),
    "rrelu": lambda x: functional.rrelu(-x, training=True),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "attention with a mask": lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "initialising": lambda x: nn.init.xavier_normal_(torch.empty(20, 20, device=x.device)),
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_one_gpu_draws_moves_its_generator_and_no_other(name):
    draw = DRAWS[name]
    x = torch.full((4, 6, 8), 0.5, device=GPU1) if name != "multinomial" else torch.full((6, 8), 0.5, device=GPU1)
    cpu, first, second = states()
    drawn = draw(x).cpu()
    assert states()[:2] == (cpu, first)
    assert states()[2] != second
    torch.rand(3), torch.rand(3, device=GPU0)
    assert not torch.equal(draw(x).cpu(), drawn)
    torch.manual_seed(0)
    assert torch.equal(draw(x).cpu(), drawn)


def test_what_draws_nothing_moves_no_generator():
    layer = nn.Linear(4, 4).requires_grad_(False)
    x = torch.full((2, 3, 4, 4), 0.5, device=GPU0)
    before = states()
    layer.to(GPU0)
    functional.dropout(layer(x), training=False)
    functional.scaled_dot_product_attention(x, x, x)
    x.to(GPU1).add_(1).sum().item()
    assert states() == before


def test_the_numbers_go_on_the_device_that_they_are_made_for():
    x = torch.ones(3, device=GPU0)
    cpu, first, second = states()
    assert str(torch.rand_like(x, device=GPU1).device) == GPU1
    assert states()[:2] == (cpu, first)
    assert states()[2] != second
    second = states()[2]
    assert torch.rand_like(x, device="cpu").device.type == "cpu"
    assert states()[0] != cpu
    assert states()[1:] == (first, second)


def test_one_seed_gives_all_gpus_the_same_numbers():
    torch.manual_seed(5)
    assert torch.equal(torch.rand(4, device=GPU0).cpu(), torch.rand(4, device=GPU1).cpu())
    torch.simgpu.manual_seed_all(6)
    assert torch.equal(torch.rand(4, device=GPU0).cpu(), torch.rand(4, device=GPU1).cpu())


def test_one_gpu_is_seeded_alone():
    before = states()
    with torch.simgpu.device(1):
        torch.simgpu.manual_seed(3)
        assert torch.simgpu.initial_seed() == 3
        assert states()[:2] == before[:2]
        torch.simgpu.seed()
        assert torch.simgpu.initial_seed() != 3
    assert torch.simgpu.initial_seed() == torch.initial_seed() == 0


def test_a_random_seed_is_for_all_gpus():
    before = states()
    torch.simgpu.seed_all()
    assert states()[0] == before[0]
    assert states()[1] == states()[2] != before[1]
    after = states()
    torch.seed()
    assert all(new != old for new, old in zip(states(), after, strict=True))


def test_states_are_kept_and_put_back():
    state, all_states = torch.simgpu.get_rng_state(GPU1), torch.simgpu.get_rng_state_all()
    drawn = torch.rand(3, device=GPU1).cpu()
    torch.simgpu.set_rng_state(state, "simgpu:1")
    assert torch.equal(torch.rand(3, device=GPU1).cpu(), drawn)
    torch.rand(3, device=GPU0)
    torch.simgpu.set_rng_state_all(all_states)
    assert torch.equal(torch.rand(3, device=GPU1).cpu(), drawn)
    assert torch.equal(torch.rand(3, device=GPU0).cpu(), drawn)


def test_a_new_machine_begins_with_the_seed_that_was_set_last():
    torch.manual_seed(8)
    torch.rand(5)
    simgpu.enable(count=3)
    drawn = torch.rand(4, device="simgpu:2").cpu()
    assert torch.simgpu.initial_seed() == 8
    torch.manual_seed(8)
    assert torch.equal(torch.rand(4, device="simgpu:0").cpu(), drawn)


def test_fork_rng_puts_the_generators_back():
    before = states()
    with torch.random.fork_rng(devices=[0, 1], device_type="simgpu"):
        torch.manual_seed(1)
        torch.rand(2, device=GPU0), torch.rand(2, device=GPU1)
    assert states() == before
    with torch.random.fork_rng(devices=[1], device_type="simgpu"):
        torch.rand(2, device=GPU0), torch.rand(2, device=GPU1)
    assert states()[::2] == before[::2]
    assert states()[1] != before[1]


def test_a_generator_of_the_cpu_is_refused_for_a_gpu():
    generator = torch.Generator()
    for draw in (
        lambda: torch.randn(3, device=GPU0, generator=generator),
        lambda: torch.randperm(3, device=GPU0, generator=generator),
        lambda: torch.ones(3, device=GPU0).normal_(generator=generator),
        lambda: nn.init.normal_(torch.empty(3, device=GPU0), generator=generator),
    ):
        before = states()
        with pytest.raises(RuntimeError, match=r"Expected a 'simgpu' device type for generator but found 'cpu'"):
            draw()
        assert states() == before
    torch.randn(3, generator=generator).to(GPU0)


def test_an_error_leaves_the_generators_where_they_belong():
    before = states()
    with pytest.raises(RuntimeError, match="expects p to be in"):
        torch.full((3,), 7.0, device=GPU0).bernoulli_(7.0)
    assert states() == before
    torch.rand(1, device=GPU0)
    assert states()[0] == before[0]


def test_a_machine_of_shapes_draws_nothing():
    simgpu.enable(count=2, compute=False)
    before = states()
    nn.Dropout()(torch.rand(3, device=GPU0))
    assert states() == before
    with pytest.raises(RuntimeError, match="for generator but found 'cpu'"):
        torch.rand(3, device=GPU0, generator=torch.Generator())


# --- what follows for models ------------------------------------------------------------------------------------


def halves(p):
    torch.manual_seed(1)
    first = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(p))
    return first, nn.Sequential(nn.Linear(16, 16), nn.Dropout(p), nn.Linear(16, 2))


def trained(p, second):
    """The losses of a model, whose second half is on a GPU of its own or not."""
    first, last = halves(p)
    first, last = first.to(GPU0), last.to(second)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
    x, y = torch.randn(8, 4).to(GPU0), torch.randn(8, 2).to(second)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.mse_loss(last(first(x).to(second)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_with_dropout_a_split_model_draws_other_masks_than_the_whole():
    assert trained(0.0, GPU0) == trained(0.0, GPU1)
    whole, split = trained(0.5, GPU0), trained(0.5, GPU1)
    assert whole != split
    assert trained(0.5, GPU0) == whole
    assert trained(0.5, GPU1) == split


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_drops_the_same_numbers_again(reentrant):
    parts = [(part.to(device), device) for part, device in zip(halves(0.5), (GPU0, GPU1), strict=True)]
    x = torch.randn(8, 4).to(GPU0).requires_grad_()

    def gradients(run):
        torch.manual_seed(2)
        hidden = x
        for part, device in parts:
            part.zero_grad()
            hidden = run(part, hidden.to(device))
        hidden.square().sum().backward()
        return [p.grad.cpu() for part, _ in parts for p in part.parameters()], states()

    plain, after = gradients(lambda part, hidden: part(hidden))
    again, after_again = gradients(lambda part, hidden: checkpoint(part, hidden, use_reentrant=reentrant))
    assert all(map(torch.equal, plain, again))
    assert after == after_again


def test_a_checkpoint_keeps_the_generators_of_its_arguments_only():
    """As on CUDA: PyTorch cannot know that the function goes on to another GPU."""
    first, last = halves(0.5)
    first, last = first.to(GPU0), last.to(GPU1)
    masks = []
    last[1].register_forward_hook(lambda module, inputs, output: masks.append((output == 0).cpu()))
    x = torch.randn(8, 4).to(GPU0).requires_grad_()
    checkpoint(lambda x: last(first(x).to(GPU1)), x, use_reentrant=False).sum().backward()
    assert not torch.equal(*masks)


def test_a_copy_of_a_model_gets_no_generator_of_its_own():
    layer = nn.Dropout().to(GPU0)
    x = torch.ones(50, device=GPU0)
    assert not torch.equal(layer(x), copy.deepcopy(layer)(x))


def test_code_for_cuda_seeds_the_simulated_gpus():
    with simgpu.as_cuda():
        torch.cuda.manual_seed_all(4)
        state = torch.cuda.get_rng_state("cuda:1")
        drawn = torch.rand(3, device="cuda:1").cpu()
        torch.cuda.set_rng_state(state, "cuda:1")
        assert torch.equal(torch.rand(3, device="cuda:1").cpu(), drawn)
        assert torch.cuda.initial_seed() == 4


def test_a_state_is_a_seed_and_an_offset_as_on_cuda():
    torch.manual_seed(5)
    begin = torch.simgpu.get_rng_state(GPU0)
    assert begin.view(torch.uint64).tolist() == [5, 0]
    first = torch.rand(3, device=GPU0).cpu()
    middle = torch.simgpu.get_rng_state(GPU0)
    assert middle.view(torch.uint64).tolist() == [5, 4]
    second = torch.rand(3, device=GPU0).cpu()
    for state, drawn in ((middle, second), (begin, first)):
        torch.simgpu.set_rng_state(state, GPU0)
        assert torch.equal(torch.rand(3, device=GPU0).cpu(), drawn)


def test_another_offset_gives_other_numbers_the_same_on_every_gpu():
    """As DTensor asks: each rank moves the offset to where its part of the whole begins."""
    torch.manual_seed(5)
    state = torch.simgpu.get_rng_state(GPU0)
    state.view(torch.int64)[1] = 64
    drawn = []
    for gpu in (GPU0, GPU1):
        torch.simgpu.set_rng_state(state, gpu)
        drawn.append(torch.rand(3, device=gpu).cpu())
    assert torch.equal(*drawn)
    torch.manual_seed(5)
    assert not torch.equal(torch.rand(3, device=GPU0).cpu(), drawn[0])


def test_another_state_is_refused():
    with pytest.raises(RuntimeError, match=r"RNG state"):
        torch.simgpu.set_rng_state(torch.get_rng_state(), GPU0)
