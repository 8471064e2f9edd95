"""What one GPU does, asked in plain PyTorch: memory, waiting, streams, errors, times. The same file asks a real GPU
and a simulated one, and the answers are compared. Nothing in simgpu is fitted to them.

    python one_gpu.py FILE.json                                             # on a real GPU
    SIMGPU=1,gpu=H200 SIMGPU_AS_CUDA=1 python one_gpu.py FILE.json facts    # on a simulated one
    SIMGPU=1,gpu=H200,compute=False SIMGPU_AS_CUDA=1 python one_gpu.py FILE.json times
    python one_gpu.py --compare REAL.json SIMULATED.json

`facts` and `times` ask for one half. A fact that raises keeps its error, and the others go on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import torch
from torch import nn
from torch.nn import functional

GPU = torch.device("cuda", 0)
MIB = 2**20
FACTS: dict[str, Callable] = {}
TIMES: dict[str, Callable] = {}


def fact(work: Callable) -> Callable:
    FACTS[work.__name__] = work
    return work


def timed(work: Callable) -> Callable:
    TIMES[work.__name__] = work
    return work


# --- memory -----------------------------------------------------------------------------------------------------


def added(make: Callable) -> int:
    """Bytes that PyTorch counts as allocated for what `make` returns."""
    before = torch.cuda.memory_allocated()
    kept = make()
    after = torch.cuda.memory_allocated()
    del kept
    return after - before


@fact
def bytes_of_small_tensors():
    return [added(lambda n=n: torch.empty(n, dtype=torch.uint8, device=GPU)) for n in (1, 512, 513, 4097, MIB + 1)]


@fact
def reserved_for_one_tensor():
    """By its bytes: one segment for small ones, one of 20 MiB up to 10 MiB, then rounded to 2 MiB."""
    found = []
    for n in (1, MIB, MIB + 1, 9 * MIB, 11 * MIB, 21 * MIB):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        kept = torch.empty(n, dtype=torch.uint8, device=GPU)
        found.append(torch.cuda.memory_reserved() - before)
        del kept
    return found


@fact
def workspace_of_the_first_product():
    """In this process: bytes that stay allocated after the first matrix product."""
    x = torch.randn(64, 64, device=GPU)
    before = torch.cuda.memory_allocated()
    y = x @ x
    del y
    return torch.cuda.memory_allocated() - before


def gpt_parts(hidden: int, heads: int):
    """A block of a GPT, in plain modules."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).flatten(2))
            return x + self.mlp(self.norm2(x))

    return Block


class Gpt(nn.Module):
    def __init__(self, vocab: int, hidden: int, heads: int, blocks: int, again: bool = False):
        super().__init__()
        block = gpt_parts(hidden, heads)
        self.embed, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
        self.blocks, self.norm, self.again = nn.ModuleList(block() for _ in range(blocks)), nn.LayerNorm(hidden), again

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(self.norm(x))


def peak_of(step: Callable, steps: int = 3) -> int:
    for _ in range(steps):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def gpt_step(optimizer: str = "adamw", mixed: bool = False, again: bool = False, dtype=torch.float32, **options):
    torch.manual_seed(0)
    model = Gpt(8000, 512, 8, 6, again).to(GPU, dtype)
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    rule = kinds[optimizer](model.parameters(), lr=1e-3, **options)
    tokens = torch.zeros(8, 256, dtype=torch.long, device=GPU)

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        rule.step()
        rule.zero_grad()

    return step


@fact
def peak_of_a_gpt_step():
    """Bytes above what was allocated before, in the third step."""
    cases = {
        "adamw": {},
        "adamw, for-loop": {"foreach": False},
        "adamw, fused": {"fused": True},
        "sgd": {"optimizer": "sgd"},
        "sgd, momentum": {"optimizer": "sgd", "momentum": 0.9},
        "autocast": {"mixed": True},
        "checkpointed": {"again": True},
        "bfloat16": {"dtype": torch.bfloat16},
    }
    found = {}
    for name, case in cases.items():
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        found[name] = peak_of(gpt_step(**case)) - before
    return found


@fact
def peak_of_an_mlp_step_with_adam():
    """In sizes of the weights, with a small batch: weights, gradients, two states, and the update's own."""
    found = {}
    for name, options in {"foreach": {}, "for-loop": {"foreach": False}, "fused": {"fused": True}}.items():
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(8))).to(GPU)
        weights = torch.cuda.memory_allocated() - before
        adam, x = torch.optim.Adam(model.parameters(), **options), torch.randn(4, 2048, device=GPU)

        def step(model=model, adam=adam, x=x):
            model(x).sum().backward()
            adam.step()
            adam.zero_grad()

        found[name] = round((peak_of(step) - before) / weights, 2)
        del model, adam, x, step
    return found


@fact
def kept_for_backward():
    """Bytes that stay until backward, by layer, of an input of 4 MiB."""
    x = torch.randn(1024, 1024, device=GPU, requires_grad=True)
    layers = {
        "relu": nn.ReLU(),
        "gelu": nn.GELU(),
        "dropout": nn.Dropout(0.1),
        "layer norm": nn.LayerNorm(1024).to(GPU),
        "softmax": nn.Softmax(-1),
        "linear": nn.Linear(1024, 1024).to(GPU),
        "silu": nn.SiLU(),
        "sigmoid": nn.Sigmoid(),
        "batch norm": nn.BatchNorm1d(1024).to(GPU),
    }
    return {name: added(lambda layer=layer: layer(x)) for name, layer in layers.items()}


@fact
def peak_of_a_convolutional_step():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.manual_seed(0)
    parts, channels = [], 3
    for width in (16, 32, 64):
        parts += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    model = nn.Sequential(*parts, nn.Flatten(), nn.LazyLinear(10)).to(GPU)
    x, y = torch.randn(16, 3, 64, 64, device=GPU), torch.zeros(16, dtype=torch.long, device=GPU)
    model(x)
    rule = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        rule.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        rule.step()

    return peak_of(step) - before


@fact
def ddp_alone():
    """Bytes that DistributedDataParallel adds at one rank: built, and after backward, by gradient_as_bucket_view."""
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29544", rank=0, world_size=1)
    found = {}
    try:
        for view in (False, True):
            model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(8))).to(GPU)
            weights = sum(each.numel() * 4 for each in model.parameters())
            before, x = torch.cuda.memory_allocated(), torch.randn(4, 1024, device=GPU)
            ddp = nn.parallel.DistributedDataParallel(model, [0], gradient_as_bucket_view=view)
            built = torch.cuda.memory_allocated() - before
            ddp(x).sum().backward()
            first = torch.cuda.memory_allocated() - before
            ddp(x).sum().backward()
            torch.cuda.synchronize()
            second = torch.cuda.memory_allocated() - before
            found[f"view={view}"] = [round(each / weights, 2) for each in (built, first, second)]
            del ddp, model
    finally:
        dist.destroy_process_group()
    return found


@fact
def out_of_memory():
    try:
        torch.empty(2**40, dtype=torch.uint8, device=GPU)
    except torch.OutOfMemoryError as error:
        return [
            type(error).__name__,
            str(error).split(" MiB")[0].split(" GiB")[0][:60],
            torch.cuda.memory_allocated() >= 0,
        ]


# --- who waits ----------------------------------------------------------------------------------------------------


def busy(milliseconds: float = 60) -> torch.cuda.Event:
    """Work for the GPU, and an event after it."""
    torch.cuda._sleep(int(milliseconds * 1.5e6))
    event = torch.cuda.Event()
    event.record()
    return event


def the_host_waits(line: Callable) -> bool | str:
    torch.cuda.synchronize()
    try:
        line()  # memory and handles are there, then
        torch.cuda.synchronize()
        event = busy()
        line()
        return event.query()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:120]
    finally:
        torch.cuda.synchronize()


@fact
def lines_that_make_the_host_wait():
    torch.manual_seed(0)
    x = torch.randn(1000, 100, device=GPU)
    small, page = torch.randn(100), torch.randn(4 * MIB)
    pinned, into = torch.randn(4 * MIB).pin_memory(), torch.empty(4 * MIB).pin_memory()
    large, labels = torch.randn(4 * MIB, device=GPU), torch.zeros(1000, dtype=torch.long, device=GPU)
    where = x > 0
    layer = nn.Linear(100, 100).to(GPU)
    layer(x).sum().backward()
    adam, norm = torch.optim.Adam(layer.parameters()), torch.nn.utils.clip_grad_norm_
    lines = {
        "x.shape": lambda: x.shape,
        "x.sum()": lambda: x.sum(),
        "x.sum().item()": lambda: x.sum().item(),
        "bool(x.sum() > 0)": lambda: bool(x.sum() > 0),
        "x.cpu()": lambda: x.cpu(),
        "x.to(cuda)": lambda: x.to(GPU),
        "x.nonzero()": lambda: x.nonzero(),
        "x[x > 0]": lambda: x[x > 0],
        "zeros on the GPU": lambda: torch.zeros(1, device=GPU),
        "x[x > 0] = 0": lambda: x.__setitem__(where, 0.0),
        "x.masked_fill": lambda: x.masked_fill(where, 0.0),
        "torch.where(a, b, c)": lambda: torch.where(where, x, x),
        "torch.where(a)": lambda: torch.where(where),
        "x.unique()": lambda: labels.unique(),
        "str(x)": lambda: str(x[:2, :2]),
        "x.tolist()": lambda: x[0].tolist(),
        "torch.tensor([1.0], device=cuda)": lambda: torch.tensor([1.0], device=GPU),
        "torch.allclose": lambda: torch.allclose(x, x),
        "torch.equal": lambda: torch.equal(x, x),
        "x.argmax()": lambda: x.argmax(),
        "x.topk": lambda: x.topk(3),
        "x.sort": lambda: x.sort(),
        "x.multinomial": lambda: x.abs().multinomial(1),
        "repeat_interleave(tensor)": lambda: x[:, 0].repeat_interleave(labels),
        "repeat_interleave(number)": lambda: x[:, 0].repeat_interleave(2),
        "x[labels]": lambda: x[labels],
        "x[list]": lambda: x[[0, 1, 2]],
        "small.to(cuda)": lambda: small.to(GPU),
        "small.to(cuda, non_blocking)": lambda: small.to(GPU, non_blocking=True),
        "pageable.to(cuda)": lambda: page.to(GPU),
        "pageable.to(cuda, non_blocking)": lambda: page.to(GPU, non_blocking=True),
        "pinned.to(cuda)": lambda: pinned.to(GPU),
        "pinned.to(cuda, non_blocking)": lambda: pinned.to(GPU, non_blocking=True),
        "large.to(cpu, non_blocking)": lambda: large.to("cpu", non_blocking=True),
        "into pinned, non_blocking": lambda: into.copy_(large, non_blocking=True),
        "into pinned": lambda: into.copy_(large),
        "linear": lambda: layer(x),
        "cross_entropy": lambda: functional.cross_entropy(x, labels),
        "dropout": lambda: functional.dropout(x),
        "clip_grad_norm_": lambda: norm(layer.parameters(), 1.0),
        "clip_grad_norm_, error_if_nonfinite": lambda: norm(layer.parameters(), 1.0, error_if_nonfinite=True),
        "adam.step()": lambda: adam.step(),
        "backward()": lambda: layer(x).sum().backward(),
        "more memory": lambda: torch.empty(64 * MIB, device=GPU),
        "empty_cache": lambda: torch.cuda.empty_cache(),
        "torch.cuda.synchronize()": lambda: torch.cuda.synchronize(),
        "memory_allocated": lambda: torch.cuda.memory_allocated(),
        "manual_seed": lambda: torch.manual_seed(0),
        "torch.save": lambda: torch.save(x, __import__("io").BytesIO()),
        "deepcopy": lambda: __import__("copy").deepcopy(layer),
        "state_dict": lambda: layer.state_dict(),
        "layer.to(cpu).to(cuda)": lambda: layer.to("cpu").to(GPU),
    }
    return {name: the_host_waits(line) for name, line in lines.items()}


@fact
def a_copy_to_the_host_read_too_early():
    """non_blocking into pinned memory, read before the GPU is done, and after."""
    x, into = torch.ones(1000, device=GPU), torch.zeros(1000).pin_memory()
    torch.cuda.synchronize()
    busy()
    into.copy_(x, non_blocking=True)
    early = into.sum().item()
    torch.cuda.synchronize()
    return [early, into.sum().item()]


@fact
def memory_that_another_stream_still_reads():
    """Whether a value is overwritten: without record_stream, and with it. (See Tensor.record_stream.)"""
    found = {}
    for name, recorded in (("without record_stream", False), ("with", True)):
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        x = torch.ones(MIB, device=GPU)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(int(60 * 1.5e6))
            seen = x.sum()
        if recorded:
            x.record_stream(side)
        del x
        other = torch.zeros(MIB, device=GPU)
        torch.cuda.synchronize()
        found[name] = seen.item()
        del other
    return found


@fact
def a_stream_that_does_not_wait():
    """Reads on a side stream what the default stream will write: the old value, or after wait_stream the new one."""
    found = {}
    for name, waits in (("no wait", False), ("wait_stream", True)):
        side, x = torch.cuda.Stream(), torch.zeros(1000, device=GPU)
        torch.cuda.synchronize()
        torch.cuda._sleep(int(60 * 1.5e6))
        x.fill_(1.0)
        if waits:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            seen = x.sum()
        torch.cuda.synchronize()
        found[name] = seen.item()
    return found


@fact
def events_and_their_errors():
    found = {}
    cases = {
        "not recorded": lambda a, b: a.elapsed_time(b),
        "not done": lambda a, b: (a.record(), busy(), b.record(), a.elapsed_time(b)),
        "without timing": lambda a, b: (torch.cuda.Event().record(), torch.cuda.Event().elapsed_time(b)),
        "wait for one that is not recorded": lambda a, b: (torch.cuda.current_stream().wait_event(a), a.query()),
    }
    for name, case in cases.items():
        try:
            value = case(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            found[name] = f"no error: {value}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"[:150]
        torch.cuda.synchronize()
    return found


@fact
def priorities():
    return [
        [torch.cuda.Stream(priority=given).priority for given in (0, -1, -5, 3)],
        torch.cuda.current_stream().priority,
    ]


# --- values and errors --------------------------------------------------------------------------------------------


@fact
def errors_in_words():
    x, layer = torch.ones(3, 3, device=GPU), nn.Linear(3, 3)
    cases = {
        "x + cpu": lambda: x + torch.ones(3, 3),
        "x + number on the CPU": lambda: x + torch.tensor(1.0),
        "cpu + number on the GPU": lambda: torch.ones(3) + x.sum(),
        "layer on the CPU": lambda: layer(x),
        "layer on the GPU, batch on the CPU": lambda: nn.Linear(3, 3).to(GPU)(torch.ones(3, 3)),
        "cat": lambda: torch.cat([x, torch.ones(3, 3)]),
        "numpy()": lambda: x.numpy(),
        "index on the CPU": lambda: x[torch.tensor([0])],
        "index on the GPU": lambda: torch.ones(3)[torch.tensor([0], device=GPU)],
        "cuda:7": lambda: torch.ones(1, device="cuda:7"),
        "x += cpu": lambda: x.add_(torch.ones(3, 3)),
        "loss": lambda: functional.mse_loss(x, torch.ones(3, 3)),
        "where": lambda: torch.where(x > 0, x, torch.tensor(0.0)),
        "labels on the CPU": lambda: functional.cross_entropy(x, torch.zeros(3, dtype=torch.long)),
        "embedding, tokens on the CPU": lambda: nn.Embedding(3, 3).to(GPU)(torch.zeros(3, dtype=torch.long)),
        "stack": lambda: torch.stack([x, torch.ones(3, 3)]),
        "matmul": lambda: torch.ones(3, 3) @ x,
        "generator": lambda: torch.randn(3, device=GPU, generator=torch.Generator()),
    }
    found = {}
    for name, case in cases.items():
        try:
            found[name] = f"works, on {case().device}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"[:230]
    return found


@fact
def settings():
    return {
        "matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "benchmark": torch.backends.cudnn.benchmark,
    }


@fact
def seeds():
    """One seed for CPU and GPU: other numbers; the same seed twice: the same."""
    torch.manual_seed(0)
    first, here = torch.randn(5, device=GPU).cpu(), torch.randn(5)
    torch.manual_seed(0)
    again = torch.randn(5, device=GPU).cpu()
    return [torch.equal(first, here), torch.equal(first, again)]


@fact
def split_batches_agree():
    """A float32 product of a whole batch, and of its halves: the largest difference, and whether bits are equal."""
    torch.manual_seed(0)
    layer, x = nn.Linear(1000, 1000).to(GPU), torch.randn(64, 1000, device=GPU)
    whole, parts = layer(x), torch.cat([layer(half) for half in x.split(32)])
    return [(whole - parts).abs().max().item() < 1e-5, torch.equal(layer(x), whole)]


# --- times --------------------------------------------------------------------------------------------------------


def seconds(work: Callable, repeats: int = 10, rounds: int = 5) -> float:
    """Of one call on the GPU: several in a row between two events, the median of some rounds."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    found = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / 1e3 / repeats)
    return median(found)


def random(*shape, dtype=torch.bfloat16, grad=False):
    return torch.randn(*shape, device=GPU, dtype=dtype).requires_grad_(grad)


@timed
def products():
    """Seconds of m x k times k x n."""
    shapes = [(8192, 8192, 8192), (4096, 4096, 4096), (16384, 4096, 4096), (16384, 4096, 14336), (16384, 14336, 4096)]
    shapes += [(2048, 2048, 2048), (1024, 1024, 1024), (8192, 2048, 8192), (16384, 4096, 128256), (512, 4096, 4096)]
    shapes += [(1, 4096, 4096), (16, 4096, 4096), (64, 4096, 14336)]
    found = {}
    for m, k, n in shapes:
        for dtype in (torch.bfloat16, torch.float32):
            if dtype == torch.float32 and m * k * n > 6e11:
                continue
            x, w = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
            found[f"{m}x{k}x{n} {str(dtype)[6:]}"] = seconds(lambda x=x, w=w: x @ w)
    return found


@timed
def products_without_pause():
    """TFLOP/s of 8192 cubed in bfloat16, by second, for six seconds: how far a burst is from what lasts."""
    x, w, found = random(8192, 8192), random(8192, 8192), []
    for _ in range(6):
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < 1.0:
            for _ in range(50):
                x @ w
            torch.cuda.synchronize()
            count += 50
        found.append(round(count * 2 * 8192**3 / (time.perf_counter() - begin) / 1e12, 1))
    return found


@timed
def attention():
    """Seconds forward, and forward with backward, by kernel; batch x heads x tokens x head size, bfloat16."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = {}
    for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        for batch, heads, tokens, size in (
            (4, 32, 2048, 128),
            (2, 32, 8192, 128),
            (1, 32, 16384, 128),
            (8, 16, 1024, 64),
        ):
            for causal in (True, False):
                q, k, v = (random(batch, heads, tokens, size, grad=True) for _ in range(3))
                grad = torch.randn_like(q)

                def both(q=q, k=k, v=v, causal=causal, grad=grad):
                    functional.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(grad)

                def forward(q=q, k=k, v=v, causal=causal):
                    with torch.no_grad():
                        functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

                name = f"{kernel.name} {batch}x{heads}x{tokens}x{size}{' causal' if causal else ''}"
                try:
                    with sdpa_kernel(kernel):
                        found[name] = [seconds(forward, 3, 3), seconds(both, 3, 3)]
                except RuntimeError as error:
                    found[name] = str(error).splitlines()[0][:100]
    return found


def moving(dtype: torch.dtype) -> dict[str, Callable]:
    """Operators that move bytes, on 16384 x 4096 numbers."""
    x, y = random(16384, 4096, dtype=dtype), random(16384, 4096, dtype=dtype)
    norm, rms = nn.LayerNorm(4096).to(GPU, dtype), nn.RMSNorm(4096).to(GPU, dtype)
    return {
        "add": lambda: x + y,
        "copy": lambda: x.clone(),
        "gelu": lambda: functional.gelu(x),
        "silu": lambda: functional.silu(x),
        "layer_norm": lambda: norm(x),
        "rms_norm": lambda: rms(x),
        "softmax": lambda: x.softmax(-1),
        "sum": lambda: x.sum(),
        "dropout": lambda: functional.dropout(x, 0.1),
        "to float32": lambda: x.float(),
        "transpose": lambda: x.t().contiguous(),
    }


@timed
def streams_of_memory():
    """Seconds of each of them, and of a loss over a large vocabulary."""
    found = {}
    for dtype in (torch.bfloat16, torch.float32):
        for name, work in moving(dtype).items():
            found[f"{name} {str(dtype)[6:]}"] = seconds(work)
    logits, labels = random(8192, 128256, dtype=torch.float32), torch.zeros(8192, dtype=torch.long, device=GPU)
    found["cross_entropy 8192x128256 float32"] = seconds(lambda: functional.cross_entropy(logits, labels), 3, 3)
    return found


@timed
def the_host():
    """Microseconds of the host for one operator, launched with nothing in its way; and of small kernels on the GPU."""
    x, layer = torch.ones(64, device=GPU), nn.Linear(64, 64).to(GPU)
    batch, other = torch.ones(64, 64, device=GPU), torch.ones(64, 64, device=GPU, requires_grad=True)
    works = {
        "relu": lambda: x.relu(),
        "add_": lambda: x.add_(1),
        "mm": lambda: batch @ batch,
        "linear": lambda: layer(batch),
        "layer_norm": lambda: functional.layer_norm(batch, (64,)),
        "cat": lambda: torch.cat([batch, batch]),
        "relu, then backward": lambda: other.relu().backward(batch),
        "item": lambda: x[0].item(),
        "view": lambda: batch.view(-1),
        "conv2d": lambda: functional.conv2d(batch.view(1, 1, 64, 64), batch.view(-1)[:9].view(1, 1, 3, 3)),
    }
    found = {}
    for name, work in works.items():
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(300):
            work()
        host = (time.perf_counter() - begin) / 300
        torch.cuda.synchronize()
        found[name] = [host * 1e6, seconds(work, 100) * 1e6]
    return found


@timed
def copies():
    """GB/s of 256 MB: pageable and pinned, each way, both ways at once; seconds of compute, of a copy, of both."""
    page, pinned = torch.ones(64 * MIB), torch.ones(64 * MIB).pin_memory()
    there, back = torch.ones(64 * MIB, device=GPU), torch.ones(64 * MIB).pin_memory()
    total, side = page.nbytes / 1e9, torch.cuda.Stream()
    found = {
        "pageable, to the GPU": total / seconds(lambda: there.copy_(page), 1),
        "pinned, to the GPU": total / seconds(lambda: there.copy_(pinned, non_blocking=True), 3),
        "to pageable": total / seconds(lambda: page.copy_(there), 1),
        "to pinned": total / seconds(lambda: back.copy_(there, non_blocking=True), 3),
        "on the GPU, bytes read and written": 2 * total / seconds(lambda: there.clone()),
    }
    x = random(8192, 8192)

    def both_ways():
        with torch.cuda.stream(side):
            back.copy_(x_there, non_blocking=True)
        there.copy_(pinned, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)

    def beside():
        with torch.cuda.stream(side):
            there.copy_(pinned, non_blocking=True)
        for _ in range(4):
            x @ x
        torch.cuda.current_stream().wait_stream(side)

    x_there = torch.ones(64 * MIB, device=GPU)
    found["both ways at once, the sum"] = 2 * total / seconds(both_ways, 1)
    found["seconds: copy"] = seconds(lambda: there.copy_(pinned, non_blocking=True), 1)
    found["seconds: 4 products"] = seconds(lambda: [x @ x for _ in range(4)], 1)
    found["seconds: both, on two streams"] = seconds(beside, 1)
    return found


@timed
def adamw():
    """Seconds of one step with a billion float32 parameters in 100 tensors, by implementation."""
    weights = [torch.zeros(10_000_000, device=GPU, requires_grad=True) for _ in range(100)]
    for each in weights:
        each.grad = torch.ones_like(each)
    found = {}
    for name, options in {
        "foreach": {"foreach": True},
        "for-loop": {"foreach": False},
        "fused": {"fused": True},
    }.items():
        found[name] = seconds(torch.optim.AdamW(weights, **options).step, 2, 3)
        torch.cuda.empty_cache()
    found["clip_grad_norm_"] = seconds(lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0), 2, 3)
    return found


def kernels_of(step: Callable) -> dict[str, float]:
    """Microseconds of each kernel of a step, by its name, from torch.profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        step()
        torch.cuda.synchronize()
    rows = [each for each in found.key_averages() if each.self_device_time_total > 0]
    return {
        each.key[:110]: each.self_device_time_total
        for each in sorted(rows, key=lambda r: -r.self_device_time_total)[:40]
    }


@timed
def whole_steps():
    """Training steps of GPTs in bfloat16: seconds, tokens, parameters, bytes at the peak, kernels."""
    found = {}
    cases = {
        "hidden 2048, 16 blocks, 4 x 2048 tokens, autocast": (2048, 16, 16, 4, 2048, True, {"foreach": True}),
        "hidden 2048, 16 blocks, 4 x 2048 tokens, autocast, fused AdamW": (
            2048,
            16,
            16,
            4,
            2048,
            True,
            {"fused": True},
        ),
        "hidden 2048, 16 blocks, 4 x 2048 tokens, all bfloat16": (2048, 16, 16, 4, 2048, False, {"foreach": True}),
        "hidden 4096, 8 blocks, 2 x 4096 tokens, all bfloat16": (4096, 32, 8, 2, 4096, False, {"foreach": True}),
        "hidden 768, 12 blocks, 16 x 1024 tokens, autocast": (768, 12, 12, 16, 1024, True, {"foreach": True}),
        "hidden 768, 12 blocks, 1 x 256 tokens, autocast": (768, 12, 12, 1, 256, True, {"foreach": True}),
    }
    for name, (hidden, heads, blocks, batch, tokens, mixed, options) in cases.items():
        torch.cuda.empty_cache()
        torch.manual_seed(0)
        with torch.device(GPU):
            model = Gpt(50304, hidden, heads, blocks)
        if not mixed:
            model = model.to(torch.bfloat16)
        rule = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
        data = torch.randint(50304, (batch, tokens), device=GPU)

        def step(model=model, rule=rule, data=data, mixed=mixed):
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                logits = model(data)
            functional.cross_entropy(logits.flatten(0, 1).float(), data.flatten()).backward()
            rule.step()
            rule.zero_grad()

        took = seconds(step, 3, 4)
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        count = sum(each.numel() for each in model.parameters())
        kernels = kernels_of(step) if "SIMGPU" not in os.environ else {}
        found[name] = {
            "seconds": took,
            "tokens": batch * tokens,
            "parameters": count,
            "peak": peak,
            "kernels_us": kernels,
        }
        del model, rule
    return found


@timed
def without_pause_in_whole_steps():
    """Milliseconds of each of 40 training steps in a row: whether later ones are slower, as on a GPU that gets hot."""
    torch.manual_seed(0)
    with torch.device(GPU):
        model = Gpt(50304, 2048, 16, 16).to(torch.bfloat16)
    rule, data = torch.optim.AdamW(model.parameters(), fused=True), torch.randint(50304, (8, 2048), device=GPU)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(41)]
    for event in events:
        event.record()
        functional.cross_entropy(model(data).flatten(0, 1).float(), data.flatten()).backward()
        rule.step()
        rule.zero_grad()
    torch.cuda.synchronize()
    return [round(a.elapsed_time(b), 2) for a, b in pairwise(events)]


# --- all of it ----------------------------------------------------------------------------------------------------


def asked(questions: dict[str, Callable]) -> dict:
    answers = {}
    for name, question in questions.items():
        begin = time.perf_counter()
        try:
            answers[name] = question()
        except Exception as error:
            answers[name] = f"{type(error).__name__}: {error}"[:400]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    return answers


def numbers(answer: object, name: str) -> dict[str, float]:
    """The numbers of an answer of times, each with a name of its own."""
    if isinstance(answer, dict):
        parts = {key: value for key, value in answer.items() if key not in ("kernels_us", "tokens", "parameters")}
        return {
            long: number for key, value in parts.items() for long, number in numbers(value, f"{name}, {key}").items()
        }
    if isinstance(answer, list):
        named = zip(("forward", "with backward"), answer, strict=False)
        return {f"{name}, {key}": value for key, value in named} if name.startswith("attention") else {}
    return {name: answer} if isinstance(answer, (int, float)) else {}


def compare(real: dict, simulated: dict) -> None:
    """Print the facts that differ, and the times of both with their ratio."""
    alike = 0
    for name, answer in real.get("facts", {}).items():
        other = simulated.get("facts", {}).get(name)
        pairs = {"": (answer, other)}
        if isinstance(answer, dict) and isinstance(other, dict):
            pairs = {f", {key}": (answer[key], other.get(key)) for key in answer}
        for which, (here, there) in pairs.items():
            alike += here == there
            if here != there:
                print(f"{name}{which}\n    real      {here}\n    simulated {there}")
    print(f"{alike} facts are the same")
    for name, answer in real.get("times", {}).items():
        there = numbers(simulated.get("times", {}).get(name), name)
        both = [(key, value, there[key]) for key, value in numbers(answer, name).items() if key in there]
        for key, measured, predicted in both:
            print(f"{key:<90.90}{measured:>12.4g}{predicted:>12.4g}{predicted / measured - 1:>+8.0%}")
        if both:
            errors = [abs(predicted / measured - 1) for _, measured, predicted in both]
            print(f"{name}: {len(both)} rows, median error {median(errors):.1%}\n")


def main(arguments: list[str]) -> None:
    if arguments[0] == "--compare":
        return compare(*(json.load(open(path)) for path in arguments[1:3]))
    found = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    for half, questions in (("facts", FACTS), ("times", TIMES)):
        if half in arguments[1:] or len(arguments) == 1:
            found[half] = asked(questions)
            with open(arguments[0], "w") as file:
                json.dump(found, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
