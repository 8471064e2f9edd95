"""Checks of what splits a sequence, a vocabulary or experts: PyTorch's own, and from its definition in plain PyTorch.

Each tells how far values and gradients are from those of one device, and what a rank has logged (bytes communicated)
beside what a formula says.
"""

import torch
import torch.distributed as dist
from checks import RANK, WORLD, check, device, farthest, numbers, refused
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import _attention as pytorchs
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module
from torch.nn import functional

import simgpu

BATCH, HEADS, WIDTH = 2, 4, 8
TOKENS = 64 * WORLD
PART = BATCH * HEADS * (TOKENS // WORLD) * WIDTH  # numbers of a rank's part of the queries, the keys or the values


def communicated(begin: float) -> list:
    """What was communicated since then: the sizes of each kind of message or collective."""
    torch.simgpu.synchronize()
    found = {}
    for record in simgpu.log(begin):
        if record.kind == "comm":
            found.setdefault(record.name, []).append(record.bytes)
    return sorted([name, sorted(sizes)] for name, sizes in found.items())


def attention_flops(begin: float) -> int:
    return sum(record.flops for record in simgpu.log(begin) if "attention" in record.name)


def attended(operands, gradient, **settings):
    """Result of attention on one device in float32, and the gradients of its operands."""
    operands = [tensor.float().requires_grad_() for tensor in operands]
    out = functional.scaled_dot_product_attention(*operands, **settings)
    out.backward(gradient.float())
    return [out, *(tensor.grad for tensor in operands)]


def inputs(dtype=torch.float32, keys=HEADS):
    """Queries, keys, values and the gradient of the result."""
    return [numbers(BATCH, n, TOKENS, WIDTH, seed=n + i).to(dtype) for i, n in enumerate((HEADS, keys, keys, HEADS))]


# --- PyTorch's context_parallel -----------------------------------------------------------------------------------


def by_pytorch(dtype, rotation, balanced, causal, keys=HEADS):
    """How far attention inside of context_parallel is from one device, and (counted, by formula)."""
    mesh = init_device_mesh("simgpu", (WORLD,))
    pytorchs.set_rotate_method(rotation)
    pytorchs._cp_options.enable_load_balance = balanced
    given = inputs(dtype, keys)
    buffers = [tensor.to(device()) for tensor in given]
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4):
        own = [tensor.detach().clone().requires_grad_() for tensor in buffers[:3]]
        begin = simgpu.now()
        out = functional.scaled_dot_product_attention(*own, is_causal=causal, enable_gqa=keys != HEADS)
        out.backward(buffers[3])
        counted = [communicated(begin), attention_flops(begin)]
        parts = [out.detach(), *(tensor.grad for tensor in own)]
        whole = [tensor.float() for tensor in pytorchs.context_parallel_unshard(mesh, parts, [2] * 4)]
    assert all(torch.equal(buffer.cpu(), tensor) for buffer, tensor in zip(buffers, given, strict=True)), "restored"
    right = attended(given[:3], given[3], is_causal=causal, enable_gqa=keys != HEADS)
    formula = [of_a_ring(rotation, dtype, keys), work_of_a_rank(balanced, causal)]
    return [farthest([a], [b]) for a, b in zip(whole, right, strict=True)], [counted, formula]


def of_a_ring(rotation, dtype, keys):
    """Keys and values travel forward and backward, gradients of both in float32 backward, and once more to get home."""
    both = 2 * PART * keys // HEADS
    sizes = {"all_to_all": [4 * both] * WORLD}
    if rotation == "allgather":
        sizes["all_gather"] = [dtype.itemsize * both * WORLD] * 2
    else:
        sizes["all_to_all"] += [dtype.itemsize * both] * (2 * (WORLD - 1))
    return sorted([name, sorted(each)] for name, each in sizes.items())


def work_of_a_rank(balanced, causal):
    """Operations in both passes, of which a whole block of a rank's queries and another's keys takes seven products."""
    blocks = WORLD if not causal else WORLD / 2 if balanced else RANK + 0.5
    return 14 * PART * (TOKENS // WORLD) * blocks


WAYS = {
    f"{rotation}, {'causal' if causal else 'not causal'}{', balanced' if balanced else ''}": (
        rotation,
        balanced,
        causal,
    )
    for rotation in ("allgather", "alltoall")
    for balanced, causal in ((True, True), (False, True), (False, False))
}


def in_all_ways(dtype, ways):
    found = {name: by_pytorch(dtype, *way) for name, way in ways.items()}
    return {
        "differences": {name: differences for name, (differences, _) in found.items()},
        "counted": {name: counted for name, (_, counted) in found.items()},
    }


@check
def context_parallel_in_float32():
    return in_all_ways(torch.float32, WAYS)


@check
def context_parallel_in_bfloat16():
    """Against float32 on one device; in the first two query heads share a head of keys."""
    grouped = {"grouped queries": ("alltoall", True, True, HEADS // 2), "in order": ("allgather", False, True)}
    return in_all_ways(torch.bfloat16, grouped)


class Attention(nn.Module):
    def forward(self, query, key, value, **settings):
        return functional.scaled_dot_product_attention(query, key, value, **settings)


@check
def context_parallel_of_modules():
    """Its other form, a plan for modules: with it all other calls of attention are those of one device."""
    mesh, (*given, gradient) = init_device_mesh("simgpu", (WORLD,)), inputs()
    plan = pytorchs._ContextParallel(seq_dim=2, attention_type=pytorchs._ContextParallel.AttentionType.SDPA)
    module = parallelize_module(Attention(), mesh, plan)
    pytorchs._cp_options.enable_load_balance = True
    balancer = pytorchs._create_default_load_balancer(TOKENS, WORLD, device())
    pytorchs._enable_context_parallel_dispatcher()
    try:
        buffers = [tensor.to(device()) for tensor in (*given, gradient)]
        *own, part = pytorchs._context_parallel_shard(mesh, buffers, [2] * 4, balancer)
        own = [tensor.detach().requires_grad_() for tensor in own]
        out = module(*own, is_causal=True)
        out.backward(part)
        apart = functional.scaled_dot_product_attention(*(tensor.detach() for tensor in own))
        parts = [out.detach(), *(tensor.grad for tensor in own)]
        whole = pytorchs.context_parallel_unshard(mesh, parts, [2] * 4, balancer)
    finally:
        pytorchs._disable_context_parallel_dispatcher()
    right = attended(given, gradient, is_causal=True)
    alone = functional.scaled_dot_product_attention(*(tensor.detach().cpu() for tensor in own))
    return [farthest([a], [b]) for a, b in zip((*whole, apart), (*right, alone), strict=True)]


@check
def context_parallel_refused():
    """What would be wrong, or has no kernel on CUDA: a line for each, and attention after it as before."""
    mesh, attend = init_device_mesh("simgpu", (WORLD,)), functional.scaled_dot_product_attention
    x = numbers(1, 2, TOKENS, 8).to(device())
    before = attend(x, x, x, is_causal=True).cpu()
    pytorchs._cp_options.enable_load_balance = True

    def called(given=x, by=None, **settings):
        with context_parallel(mesh, buffers=[given.detach().clone()], buffer_seq_dims=[2]):
            part = given.chunk(WORLD, dim=2)[RANK]
            key = settings.pop("key", part)
            return (by or functional.scaled_dot_product_attention)(part, key, key, is_causal=True, **settings)

    outside = called(x.clone().requires_grad_())
    told = {
        "dropout": refused(lambda: called(dropout_p=0.1)),
        "mask": refused(lambda: called(attn_mask=torch.ones(1, 1, 64, 64, dtype=torch.bool, device=device()))),
        "float64": refused(lambda: called(x.double())),
        "short": refused(lambda: called(x[:, :, : TOKENS // 2])),
        "grouped": refused(lambda: called(key=x[:, :1, :64], enable_gqa=True)),
        "not grouped": refused(lambda: called(x.half(), key=x[:, :1, :64].half())),
        "named": refused(lambda: called(by=attend)),
        "backward outside": refused(outside.sum().backward),
    }
    return {"words": told, "after": farthest([attend(x, x, x, is_causal=True)], [before])}


# --- from their definitions ---------------------------------------------------------------------------------------


def passed_on(tensor):
    """What the rank before has of this, which goes to the rank after."""
    got = torch.empty_like(tensor)
    ring = [dist.P2POp(dist.isend, tensor.contiguous(), (RANK + 1) % WORLD)]
    ring.append(dist.P2POp(dist.irecv, got, (RANK - 1) % WORLD))
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    return got


def scores(query, key, seen):
    return (query @ key.mT / WIDTH**0.5).masked_fill(~seen, float("-inf"))


class Ring(torch.autograd.Function):
    """Ring attention, causal by the positions of a rank's tokens: blocks joined by their log-sum-exp."""

    @staticmethod
    def forward(ctx, query, key, value, positions):
        sums = torch.full((*query.shape[:-1], 1), float("-inf"), device=query.device)
        out, both = torch.zeros_like(query), torch.stack([key, value])
        for step in range(WORLD):
            both = passed_on(both) if step else both
            block = scores(query, both[0], positions[RANK][:, None] >= positions[RANK - step])
            of_block = block.logsumexp(-1, keepdim=True)
            joined = torch.logaddexp(sums, of_block)
            out = out * (sums - joined).exp() + (block - joined).exp() @ both[1]
            sums = joined
        ctx.save_for_backward(query, key, value, out, sums)
        ctx.positions = positions
        return out

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, out, sums = ctx.saved_tensors
        common = (gradient * out).sum(-1, keepdim=True)
        of_query, both = torch.zeros_like(query), torch.stack([key, value])
        of_both = torch.zeros_like(both)
        for step in range(WORLD):
            if step:
                both, of_both = passed_on(both), passed_on(of_both)
            seen = ctx.positions[RANK][:, None] >= ctx.positions[RANK - step]
            weights = (scores(query, both[0], seen) - sums).exp()
            of_scores = weights * (gradient @ both[1].mT - common) / WIDTH**0.5
            of_query += of_scores @ both[0]
            of_both = of_both + torch.stack([of_scores.mT @ query, weights.mT @ gradient])
        return of_query, *passed_on(of_both), None


def split_by(positions, call):
    """How far `call`, on the tokens with this rank's positions, is from one device, and what it communicated."""
    given = [tensor[:, :, positions[RANK]].to(device()) for tensor in inputs()]
    own = [tensor.requires_grad_() for tensor in given[:3]]
    begin = simgpu.now()
    out = call(*own)
    out.backward(given[3])
    sizes = communicated(begin)
    *operands, gradient = inputs()
    right = [tensor[:, :, positions[RANK]] for tensor in attended(operands, gradient, is_causal=True)]
    ours = [out, *(tensor.grad for tensor in own)]
    return [farthest([a], [b]) for a, b in zip(ours, right, strict=True)], sizes


IN_ORDER = torch.arange(TOKENS).chunk(WORLD)
_CHUNKS = torch.arange(TOKENS).chunk(2 * WORLD)
ZIG_ZAG = [torch.cat([_CHUNKS[rank], _CHUNKS[-1 - rank]]) for rank in range(WORLD)]


@check
def ring_attention():
    """Parts in order, and head and tail of the sequence on each rank."""
    told = {"differences": {}, "counted": {}}
    for name, positions in (("in order", IN_ORDER), ("zig-zag", ZIG_ZAG)):
        there = [each.to(device()) for each in positions]
        far, sizes = split_by(positions, lambda *own, there=there: Ring.apply(*own, there))
        both = 4 * 2 * PART
        # Forward keys and values, backward these again and their gradients, which go once more to get home.
        formula = [[way, [both] * (2 * (WORLD - 1) + WORLD)] for way in ("recv", "send")]
        told["differences"][name], told["counted"][name] = far, [sizes, formula]
    return told


class Swap(torch.autograd.Function):
    """The tokens of some heads for the heads of some tokens, by an all-to-all; `back` is the other way."""

    @staticmethod
    def forward(ctx, x, back):
        ctx.back = back
        parts = torch.stack(x.chunk(WORLD, dim=2 if back else 1))
        got = torch.empty_like(parts)
        dist.all_to_all_single(got, parts)
        return torch.cat(list(got), dim=1 if back else 2)

    @staticmethod
    def backward(ctx, gradient):
        return Swap.apply(gradient, not ctx.back), None


@check
def ulysses():
    def call(*own):
        heads = [Swap.apply(tensor, False) for tensor in own]
        return Swap.apply(functional.scaled_dot_product_attention(*heads, is_causal=True), True)

    far, sizes = split_by(IN_ORDER, call)
    return {"differences": far, "counted": {"8 all-to-alls": [sizes, [["all_to_all", [4 * PART] * 8]]]}}


@check
def split_vocabulary():
    """PyTorch's loss_parallel: it never gathers logits. Per token it reduces a maximum, a sum and a logit, forward."""
    rows, words = 12, 16 * WORLD
    logits, targets = numbers(rows, words), torch.arange(rows) * 5 % words
    alone = logits.clone().requires_grad_()
    right = functional.cross_entropy(alone, targets)
    right.backward()
    mesh = init_device_mesh("simgpu", (WORLD,))
    own = logits.chunk(WORLD, dim=1)[RANK].to(device()).requires_grad_()
    begin = simgpu.now()
    with loss_parallel():
        shared = DTensor.from_local(own, mesh, [Shard(1)], run_check=False)
        loss = functional.cross_entropy(shared, targets.to(device()))
        loss.backward()
    sizes = communicated(begin)
    far = [farthest([loss.full_tensor()], [right]), farthest([own.grad], [alone.grad.chunk(WORLD, dim=1)[RANK]])]
    return {"differences": far, "counted": {"of tokens": [sizes, [["all_reduce", [4 * rows] * 3]]]}}


class Exchange(torch.autograd.Function):
    """Rows to other ranks: so many to each, so many from each. Gradients go the way back."""

    @staticmethod
    def forward(ctx, rows, given, got):
        ctx.sizes = given, got
        out = rows.new_empty(sum(got), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), got, given)
        return out

    @staticmethod
    def backward(ctx, gradient):
        given, got = ctx.sizes
        return Exchange.apply(gradient, got, given), None, None


EXPERTS, MODEL, TOP = 2 * WORLD, 16, 2


def routed(x, router, run):
    """A layer of experts: the best of each token, weighed by the router. `run` takes rows in the order of experts."""
    weights, chosen = router(x).softmax(-1).topk(TOP)
    order = chosen.flatten().argsort(stable=True)
    rows = run(x[order // TOP], chosen.flatten().bincount(minlength=EXPERTS))
    return torch.zeros_like(x).index_add(0, order // TOP, rows * weights.flatten()[order, None])


def on_experts(experts, rows, counts):
    return torch.cat([expert(part) for expert, part in zip(experts, rows.split(counts), strict=True)])


@check
def experts():
    """Each rank has two experts and tokens of its own, of which many choose the same expert."""
    torch.manual_seed(0)
    router = nn.Linear(MODEL, EXPERTS)
    with torch.no_grad():
        router.bias[1] += 2.0  # popular
    alone = [nn.Sequential(nn.Linear(MODEL, 32), nn.GELU(), nn.Linear(32, MODEL)) for _ in range(EXPERTS)]
    x, gradient = numbers(12 * WORLD, MODEL), numbers(12 * WORLD, MODEL, seed=2)
    x.requires_grad_()
    right = routed(x, router, lambda rows, counts: on_experts(alone, rows, counts.tolist()))
    right.backward(gradient)
    grads = [parameter.grad for parameter in router.parameters()]
    mine = slice(2 * RANK, 2 * RANK + 2)
    right_of_mine = [parameter.grad for expert in alone[mine] for parameter in expert.parameters()]
    with torch.no_grad():
        chosen = router(x).topk(TOP).indices.chunk(WORLD)
    router.zero_grad()
    own, router = nn.ModuleList(alone[mine]).to(device()), router.to(device())
    own.zero_grad()
    sent = []

    def run(rows, counts):
        for_each = counts.view(WORLD, -1)
        from_each = torch.empty_like(for_each)
        dist.all_to_all_single(from_each, for_each)
        given, got = for_each.sum(1).tolist(), from_each.sum(1).tolist()
        sent.extend((sum(given), sum(got)))
        arrived = Exchange.apply(rows, given, got)
        of = torch.arange(2, device=device()).repeat(WORLD).repeat_interleave(from_each.flatten())
        order = of.argsort(stable=True)
        out = on_experts(own, arrived[order], of.bincount(minlength=2).tolist())
        return Exchange.apply(out[order.argsort()], got, given)

    tokens = x.detach().chunk(WORLD)[RANK].to(device()).requires_grad_()
    begin = simgpu.now()
    out = routed(tokens, router, run)
    out.backward(gradient.chunk(WORLD)[RANK].to(device()))
    sizes = communicated(begin)
    for parameter in router.parameters():
        dist.all_reduce(parameter.grad)
    expected = [12 * TOP, sum(int((each // 2 == RANK).sum()) for each in chosen)]
    row = 4 * MODEL
    formula = [["all_to_all", sorted([8 * EXPERTS, *(2 * [row * expected[0]]), *(2 * [row * expected[1]])])]]
    ours = [parameter.grad for parameter in own.parameters()]
    return {
        "differences": [
            farthest([out], [right.chunk(WORLD)[RANK]]),
            farthest([tokens.grad], [x.grad.chunk(WORLD)[RANK]]),
            farthest([parameter.grad for parameter in router.parameters()], grads),
            farthest(ours, right_of_mine),
        ],
        "counted": {"rows": [sent, expected], "dispatched and combined": [sizes, formula]},
    }
