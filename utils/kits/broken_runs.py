"""Lesson 18's runs: a small training program whose switches break it, on a cluster that simgpu.faults break.

`run("A")` trains and returns what each rank reported. Which switch or fault a letter has stands in `SEALED`, at the end
of this file: a lesson's reader finds it by looking at the run. All of it is the same in every run.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

import simgpu
from simgpu import faults
from simgpu.profiles import GPUS
from utils.kits.token_shards import AllGatherTokens, ReduceScatterTokens
from utils.observe.trace import Timeline, record
from utils.ranks import RankError, Ranks, ranks

VOCABULARY = 64  # tokens that there are


@dataclass(frozen=True)
class BrokenProgram:
    """The training program: its sizes, and the switches that break it. `data` x `tensor` is the number of ranks."""

    data: int = 4
    tensor: int = 1
    steps: int = 3
    layers: int = 2
    hidden: int = 64
    head: int = 16  # the size of an attention head
    tokens: int = 64  # of a replica's sequence, in a step
    dtype: torch.dtype = torch.float32
    clip: float = 1.0
    seed: int = 0
    validate_every: int = 0  # steps; 0: never
    validation: int = 2  # batches of each replica
    # What breaks it:
    norms_left_out: bool = False  # the norms' gradients are not summed over the tensor group
    replicas_counted: bool = False  # the gradient's norm counts a replicated weight once for each tensor rank
    losses_kept: bool = False  # training and validation keep their losses with their graphs
    short_replica: int | None = None  # this replica has one validation batch fewer


@dataclass
class BrokenRun:
    """What a run's ranks reported. Lists are by rank."""

    program: BrokenProgram
    seconds: list[list[float]] = field(default_factory=list)  # of each step
    losses: list[list[float]] = field(default_factory=list)  # of each step, the mean over all ranks
    norms: list[list[float]] = field(default_factory=list)  # of the gradient, in each step
    memory: list[list[int]] = field(default_factory=list)  # bytes allocated after each step
    gradients: list[dict[str, torch.Tensor]] = field(default_factory=list)  # of the first step, before clipping
    sharded: set[str] = field(default_factory=set)  # weights of which each tensor rank has its own shard
    dumps: list[dict] = field(default_factory=list)  # flight recorders
    timeline: Timeline | None = None  # of the last step, all ranks
    error: str = ""

    @property
    def mfu(self) -> float:
        """Of the last step, as in lesson 15."""
        p = self.program
        weights = p.layers * _weights_of_a_layer(p.hidden)
        operations = p.data * p.tokens * (6 * weights + 12 * p.layers * p.hidden * p.tokens)
        return operations / self.seconds[0][-1] / (p.data * p.tensor * GPUS["H100"].peak(torch.bfloat16))


def _weights_of_a_layer(hidden: int) -> int:
    return 4 * hidden * hidden + 3 * hidden * 4 * hidden


# --- the model --------------------------------------------------------------------------------------------------


class BrokenBlock(nn.Module):
    """(tokens, hidden) to the same shape: a Llama-like block, split over a tensor group with sequence parallelism."""

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    o: nn.Linear
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear

    def __init__(self, hidden: int, head: int, group: Any):
        super().__init__()
        self.head, self.group = head, group if group.size() > 1 else None
        self.norm1, self.norm2 = (nn.LayerNorm(hidden, bias=False) for _ in range(2))
        sizes = {"q": (hidden, hidden), "k": (hidden, hidden), "v": (hidden, hidden), "o": (hidden, hidden)}
        sizes |= {"gate": (hidden, 4 * hidden), "up": (hidden, 4 * hidden), "down": (4 * hidden, hidden)}
        for name, (inputs, outputs) in sizes.items():
            layer = nn.Linear(inputs, outputs, bias=False)  # undivided, so that every split begins with equal weights
            shards = layer.weight.detach().chunk(group.size(), dim=int(name in ("o", "down")))
            layer.weight = nn.Parameter(shards[group.rank()].clone())
            self.add_module(name, layer)

    def forward(self, x):
        y = self._all_tokens(self.norm1(x))
        q, k, v = (layer(y).unflatten(-1, (-1, self.head)).transpose(0, 1) for layer in (self.q, self.k, self.v))
        y = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        x = x + self._own_tokens(self.o(y.transpose(0, 1).flatten(1)))
        y = self._all_tokens(self.norm2(x))
        return x + self._own_tokens(self.down(silu(self.gate(y)) * self.up(y)))

    def _all_tokens(self, x):
        return AllGatherTokens.apply(x, self.group) if self.group else x

    def _own_tokens(self, x):
        return ReduceScatterTokens.apply(x, self.group) if self.group else x


SPLIT = ("q", "k", "v", "o", "gate", "up", "down")


def is_sharded(name: str) -> bool:
    """Whether a weight of this name is one that each tensor rank has its own shard of."""
    return name.split(".")[-2] in SPLIT


# --- training ---------------------------------------------------------------------------------------------------


class BrokenTrainer:
    """One rank of the program."""

    def __init__(self, program: BrokenProgram, compute: bool):
        self.program, self.compute = program, compute
        self.gpu = torch.device("simgpu", dist.get_rank())
        mesh = init_device_mesh("simgpu", (program.data, program.tensor), mesh_dim_names=("data", "tensor"))
        self.data, self.tensor = (mesh[name].get_group() for name in ("data", "tensor"))
        torch.manual_seed(program.seed)
        with self.gpu:
            parts: dict[str, nn.Module] = {"embed": nn.Embedding(VOCABULARY, program.hidden)}
            for number in range(program.layers):
                parts[f"layer{number}"] = BrokenBlock(program.hidden, program.head, self.tensor)
            parts["norm"] = nn.LayerNorm(program.hidden, bias=False)
            parts["head"] = nn.Linear(program.hidden, VOCABULARY, bias=False)
            self.model = nn.Sequential(OrderedDict(parts)).to(program.dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, fused=True)
        self.pending, self.history = [], []
        for name, weight in self.model.named_parameters():
            weight.register_post_accumulate_grad_hook(lambda weight, name=name: self._reduce(name, weight.grad))

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's tokens of a sequence of its replica, and the tokens after them."""
        drawn = torch.Generator().manual_seed(1_000 * number + self.data.rank())
        tokens = torch.randint(VOCABULARY, (self.program.tokens,), generator=drawn)
        for i in range(1, len(tokens) if self.compute else 0):
            if tokens[i] >= VOCABULARY // 8:  # else a token that does not follow from the last
                tokens[i] = (5 * tokens[i - 1] + 3) % VOCABULARY
        following = (5 * tokens + 3) % VOCABULARY
        x, y = (each.chunk(self.program.tensor)[self.tensor.rank()] for each in (tokens, following))
        return x.to(self.gpu), y.to(self.gpu)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """This rank's part of its replica's loss: its tokens' sum, divided by all tokens of the replica."""
        return cross_entropy(self.model(x).float(), y, reduction="sum") / self.program.tokens

    def gradients(self) -> dict[str, torch.Tensor]:
        """By the weights' names."""
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}

    def _reduce(self, name: str, gradient: torch.Tensor) -> None:
        """Begin the all-reduce of a gradient: the mean over replicas, summed over ranks that had other tokens."""
        everywhere = not is_sharded(name) and not (self.program.norms_left_out and gradient.dim() == 1)
        gradient.div_(self.program.data)
        group = dist.group.WORLD if everywhere else self.data
        self.pending.append(dist.all_reduce(gradient, group=group, async_op=True))

    def clip(self) -> torch.Tensor:
        """Scale the gradient to the norm `clip` at most; return the norm that it had."""
        squares = {name: gradient.float().square().sum() for name, gradient in self.gradients().items()}
        shards = [each for name, each in squares.items() if self.program.replicas_counted or is_sharded(name)]
        whole = [each for name, each in squares.items() if not (self.program.replicas_counted or is_sharded(name))]
        total = torch.stack(shards).sum()
        if self.program.tensor > 1:
            dist.all_reduce(total, group=self.tensor)
        norm = torch.stack([total, *whole]).sum().sqrt()
        scale = (self.program.clip / (norm + 1e-6)).clamp(max=1.0)
        for gradient in self.gradients().values():
            gradient.mul_(scale.to(gradient.dtype))
        return norm

    def log(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss of all replicas, on every rank."""
        total = loss.detach() / self.program.data
        dist.all_reduce(total)
        return total

    def validation_batches(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of this rank's replica; they are not trained on."""
        short = self.data.rank() == self.program.short_replica
        return [self.batch(-1_000 - number) for number in range(self.program.validation - short)]

    def validate(self) -> None:
        for x, y in self.validation_batches():
            with torch.no_grad():
                loss = self.loss(x, y)
            self.log(loss)

    def validate_and_keep(self) -> None:
        for x, y in self.validation_batches():
            loss = self.loss(x, y)
            self.history.append(loss)
            self.log(loss)

    def step(self, number: int) -> tuple[torch.Tensor, torch.Tensor, dict]:
        self.optimizer.zero_grad()
        loss = self.loss(*self.batch(number))
        loss.backward()
        while self.pending:
            self.pending.pop().wait()
        kept = {name: each.cpu() for name, each in self.gradients().items()} if self.compute and not number else {}
        norm = self.clip()
        self.optimizer.step()
        mean = self.log(loss)
        every = self.program.validate_every
        if every and number % every == every - 1:
            if self.program.losses_kept:
                self.validate_and_keep()
            else:
                self.validate()
        if self.program.losses_kept:
            self.history.append(loss)
        return mean, norm, kept


def train_broken(program: BrokenProgram, compute: bool) -> dict:
    """Trains on a rank; what it reports, as plain data. For `ranks`."""
    trainer = BrokenTrainer(program, compute)
    told: dict[str, Any] = {"seconds": [], "losses": [], "norms": [], "memory": [], "error": "", "timeline": None}
    memory = torch.get_device_module(trainer.gpu)
    for number in range(program.steps):
        try:
            with record(all_ranks=number == program.steps - 1) as timeline:
                loss, norm, kept = trainer.step(number)
        except torch.OutOfMemoryError as error:
            told["error"] = f"step {number}: {error}"
            break
        told["timeline"] = timeline
        told["seconds"].append(timeline.span)
        told["memory"].append(memory.memory_allocated())
        if compute:
            told["losses"].append(loss.item())
            told["norms"].append(norm.item())
        if kept:
            told["gradients"] = kept
    told["sharded"] = {name for name, _ in trainer.model.named_parameters() if is_sharded(name)}
    told["dump"] = simgpu.flight_recorder()
    return told


# --- runs -------------------------------------------------------------------------------------------------------

LARGE: dict[str, Any] = {
    "layers": 2,
    "hidden": 4096,
    "head": 128,
    "tokens": 8192,
    "dtype": torch.bfloat16,
}  # shapes only
SMALL: dict[str, Any] = {"layers": 2, "hidden": 64, "tokens": 64, "steps": 8}  # with values


@dataclass(frozen=True)
class SealedRun:
    """A program, the cluster that it runs on, and that cluster's faults."""

    program: BrokenProgram
    machine: dict[str, Any]
    faults: tuple = ()

    @property
    def compute(self) -> bool:
        return self.machine.get("compute", True)

    def cluster(self) -> Ranks:
        count = self.program.data * self.program.tensor
        return ranks(count, gpu="H100", link="nvlink4", network="400G", faults=self.faults, **self.machine)

    def run(self) -> BrokenRun:
        """Train on the cluster."""
        found = BrokenRun(self.program)
        with tempfile.TemporaryDirectory() as folder, _dumps_in(folder):
            try:
                told = self.cluster().run(train_broken, self.program, self.compute)
            except RankError:
                found.error = "no rank can finish its step"
                found.dumps = [pickle.loads(path.read_bytes()) for path in _by_rank(Path(folder).glob("dump_*"))]
                return found
        found.seconds, found.losses, found.norms, found.memory, found.dumps = (
            [each[name] for each in told] for name in ("seconds", "losses", "norms", "memory", "dump")
        )
        found.gradients = [each.get("gradients", {}) for each in told]
        found.sharded, found.timeline, found.error = told[0]["sharded"], told[0]["timeline"], told[0]["error"]
        return found


def _by_rank(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: int(path.name.rpartition("_")[2]))


class _dumps_in:
    """Ranks that hang leave what their flight recorders have in a folder, as `dump_0`, `dump_1` ..."""

    NAMES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")

    def __init__(self, folder: str):
        self.folder = folder

    def __enter__(self):
        self.before = {name: os.environ.get(name) for name in self.NAMES}
        os.environ.update(dict.fromkeys(self.NAMES, str(Path(self.folder, "dump_"))))

    def __exit__(self, *_):
        for name, value in self.before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def broken_run(letter: str, **program) -> BrokenRun:
    """Run one of the sealed runs; `program` changes its program, such as tensor=1, and `nodes` the cluster."""
    return _sealed(letter, program).run()


def broken_cluster(letter: str, **program) -> Ranks:
    """The cluster of a sealed run, with its faults, to run something else on: `broken_cluster("B").run(function)`."""
    return _sealed(letter, program).cluster()


def _sealed(letter: str, changes: dict) -> SealedRun:
    sealed = SEALED[letter]
    machine = sealed.machine | ({"nodes": changes.pop("nodes")} if "nodes" in changes else {})
    program = replace(sealed.program, **changes)
    some = [f for f in sealed.faults if getattr(f, "node", 0) < machine.get("nodes", 1)]
    return SealedRun(program, machine, tuple(some))


SEALED = {
    "healthy": SealedRun(BrokenProgram(data=8, **LARGE), {"compute": False}),
    "A": SealedRun(
        BrokenProgram(data=8, **LARGE), {"compute": False}, (faults.SlowGpu(5, 1.7), faults.Jitter(0.03, 0))
    ),
    "B": SealedRun(BrokenProgram(data=8, **LARGE), {"compute": False, "nodes": 4}, (faults.SlowAdapter(2, 0.25),)),
    "C": SealedRun(BrokenProgram(data=2, tensor=2, norms_left_out=True, **SMALL), {}),
    "D": SealedRun(BrokenProgram(data=8, steps=9, validate_every=4, short_replica=6, **LARGE), {"compute": False}),
    "E": SealedRun(BrokenProgram(data=2, steps=99, validate_every=5, losses_kept=True, **LARGE), {"compute": False}),
    "F": SealedRun(BrokenProgram(data=8, **LARGE), {"compute": False}, (faults.Jitter(0.3, 1),)),
}
