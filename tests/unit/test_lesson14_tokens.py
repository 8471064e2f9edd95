"""A model that generates on several devices gives the tokens of the CPU: Accelerate's split, and lesson 14's cache."""

from copy import deepcopy

import pytest
import torch

import simgpu
from utils.exercises.tasks.lesson14.worked import in_turns, layer_cache, most_sequences

pytestmark = pytest.mark.xdist_group("transformers")  # loading it takes a while
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

SIZES = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
COUNT = 12


@pytest.fixture
def gpus():
    simgpu.enable(count=4)
    return [torch.device("simgpu", number) for number in range(4)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).eval()


@pytest.fixture(scope="module")
def prompts():
    return torch.randint(1, 512, (4, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def expected(model, prompts):
    return generated(model, prompts)


def generated(model, prompts):
    given = prompts.to(model.device)
    made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=COUNT, do_sample=False)
    return made[:, prompts.shape[1] :].cpu()


def split_over(model, gpus):
    size = sum(weight.nbytes for weight in model.parameters())
    room = dict.fromkeys(range(len(gpus)), int(1.4 * size / len(gpus)))
    places = accelerate.infer_auto_device_map(model, room, no_split_module_classes=["LlamaDecoderLayer"])
    assert set(places.values()) == set(range(len(gpus)))
    return accelerate.dispatch_model(deepcopy(model), {name: gpus[number] for name, number in places.items()})


def new_cache(model, sequences, longest=40):
    from utils.models.llama import as_cache

    weights = [layer.self_attn.k_proj.weight for layer in model.model.layers]
    return as_cache([layer_cache(weight, sequences, longest, 8) for weight in weights])


@torch.no_grad()
def step(model, tokens, cache):
    return model(tokens, cache=cache, logits_to_keep=1).logits.argmax(-1)


@pytest.mark.parametrize("count", [2, 4])
def test_a_dispatched_model_generates_the_tokens_of_the_cpu(model, prompts, expected, gpus, count):
    assert len(set(expected.flatten().tolist())) > 20, "tokens that tell right from wrong"
    assert torch.equal(generated(split_over(model, gpus[:count]), prompts), expected)


@pytest.mark.parametrize("count", [2, 4])
def test_the_cache_beside_each_layer_gives_the_same_tokens(model, prompts, expected, gpus, count):
    split = split_over(model, gpus[:count])
    cache = new_cache(split, len(prompts))
    made = [step(split, prompts.to(gpus[0]), cache)]
    while len(made) < COUNT:
        made.append(step(split, made[-1], cache))
    assert torch.equal(torch.cat(made, 1).cpu(), expected)


def test_groups_in_turns_give_the_same_tokens(model, prompts, expected, gpus):
    split = split_over(model, gpus[:2])
    groups = prompts.chunk(2)
    caches = [new_cache(split, len(group)) for group in groups]
    first = [step(split, group.to(gpus[0]), cache) for group, cache in zip(groups, caches, strict=True)]
    with simgpu.unfinished_reads() as early:
        found = in_turns(lambda now, group: step(split, now, caches[group]), first, COUNT - 1, *gpus[:2])
        made = [torch.cat([one, *more], 1).cpu() for one, more in zip(first, found, strict=True)]
    assert torch.equal(torch.cat(made), expected)
    assert not list(early)


def test_the_model_that_is_placed_by_shapes_is_the_same_model(model, prompts, expected, gpus):
    from utils.models.llama import placed

    split = placed(model.config, gpus, torch.float32)
    split.load_state_dict(model.state_dict())
    split.model.rotary_emb.inv_freq.copy_(model.model.rotary_emb.inv_freq)
    cache = new_cache(split, len(prompts))
    made = [step(split, prompts.to(gpus[0]), cache)]
    while len(made) < COUNT:
        made.append(step(split, made[-1], cache))
    assert torch.equal(torch.cat(made, 1).cpu(), expected)


def test_as_many_sequences_fit_as_the_task_says(model, gpus):
    """By a model of shapes: its weights and caches are allocated, and one sequence more does not fit."""
    from utils.models.llama import placed

    memory = 3_000_000
    simgpu.enable(count=2, memory=memory, compute=False)
    split = placed(model.config, [torch.device("simgpu", number) for number in range(2)])
    most = most_sequences(model.config, memory, 2, 128)
    caches = [new_cache(split, 1, 128) for _ in range(most)]
    with pytest.raises(torch.OutOfMemoryError):
        caches.append(new_cache(split, 1, 128))
    assert len(caches) == most > 5
