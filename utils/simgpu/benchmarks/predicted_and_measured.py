"""How well a simulated GPU predicts a real one: training steps measured on it, and predicted from its profile.

On a machine with a GPU: its profile (`simgpu.measure_profile`: matrix products, a copy, tiny kernels), then time and
peak memory of 32 training steps. They are kept in a file, which the second line predicts on any machine:

    .venv/bin/python -m utils.simgpu.benchmarks.predicted_and_measured FILE.json --measure [cuda:0]
    .venv/bin/python -m utils.simgpu.benchmarks.predicted_and_measured FILE.json [--datasheet H200]
"""

import argparse
import dataclasses
import json
import statistics
from pathlib import Path

import torch
import torchvision
from torch import nn

import simgpu
from simgpu.profiles import GpuProfile

WARM_UP, STEPS = 5, 20


def mlp():
    return nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(4096, 4096), nn.ReLU())), nn.Linear(4096, 10))


def encoder():
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), nn.Flatten(), nn.LazyLinear(10))


def resnet50():
    return torchvision.models.resnet50(num_classes=10)


def vit():
    with torch.device("cpu"):  # its weights are drawn until all are small, which asks for values
        return torchvision.models.vit_b_16(num_classes=10)


# name: the model, the shape of one sample, batch sizes
MODELS = {
    "ResNet50": (resnet50, (3, 224, 224), (8, 32, 64, 128)),
    "Transformer": (encoder, (256, 1024), (4, 8, 16, 32)),
    "MLP": (mlp, (4096,), (64, 512, 2048, 8192)),
    "ViT-B/16": (vit, (3, 224, 224), (8, 32, 64, 128)),
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CASES = [(name, batch, dtype) for name, (_, _, batches) in MODELS.items() for batch in batches for dtype in DTYPES]


def stepper(name: str, batch: int, dtype: torch.dtype, device: torch.device):
    make, shape, _ = MODELS[name]
    torch.manual_seed(0)
    with torch.device(device):
        model = make().to(device, dtype)
        x, y = torch.randn(batch, *shape, dtype=dtype), torch.zeros(batch, dtype=torch.long)
        model(x)  # lazy layers get their shapes
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).float(), y).backward()
        optimizer.step()

    return step


def cost(step, device: torch.device) -> dict:
    """Milliseconds a step, from events of the device around many, and the most bytes in use in one."""
    module = torch.get_device_module(device)
    start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
    for _ in range(WARM_UP):
        step()
    module.synchronize(device)
    module.reset_peak_memory_stats(device)
    start.record()
    for _ in range(STEPS):
        step()
    end.record()
    module.synchronize(device)
    return {"ms": start.elapsed_time(end) / STEPS, "peak": module.max_memory_allocated(device)}


def costs(device: torch.device) -> list[dict]:
    found = []
    for name, batch, dtype in CASES:
        try:
            found.append({"model": name, "batch": batch, "dtype": dtype})
            found[-1] |= cost(stepper(name, batch, DTYPES[dtype], device), device)
        except torch.OutOfMemoryError:
            print(f"{found.pop()}: does not fit")
        torch.get_device_module(device).empty_cache()
    return found


def measure(path: Path, name: str) -> None:
    device = torch.device(name)
    try:
        profile = simgpu.measure_profile(device)
    except RuntimeError as error:
        raise SystemExit(f"This needs a GPU. {error}") from None
    known = dataclasses.asdict(profile) | {"fast": {str(dtype)[6:]: rate for dtype, rate in profile.fast.items()}}
    found = {"gpu": torch.get_device_module(device).get_device_name(device), "torch": torch.__version__}
    path.write_text(json.dumps(found | {"profile": known, "steps": costs(device)}, indent=1) + "\n")


def compare(path: Path, datasheet: str | None) -> None:
    measured = json.loads(path.read_text())
    profile = measured["profile"] | {"fast": {getattr(torch, d): r for d, r in measured["profile"]["fast"].items()}}
    profile = datasheet or GpuProfile(**profile)
    print(profile)
    simgpu.enable(count=1, gpu=profile, compute=False)
    print(f"measured on {measured['gpu']}, torch {measured['torch']}")
    print(f"{'':<38}measured  predicted   error      measured  predicted   error")
    errors, memory = [], []
    for there, here in zip(measured["steps"], costs(torch.device("simgpu:0")), strict=True):
        assert all(there[key] == here[key] for key in ("model", "batch", "dtype"))
        errors.append(here["ms"] / there["ms"] - 1)
        memory.append(here["peak"] / there["peak"] - 1)
        print(f"{there['model']:<14}batch {there['batch']:>5}  {there['dtype']:<10}", end="")
        print(f"{there['ms']:>9.2f} ms{here['ms']:>8.2f} ms{errors[-1]:>+8.1%}", end="")
        print(f"{there['peak'] / 1e9:>11.2f} GB{here['peak'] / 1e9:>8.2f} GB{memory[-1]:>+8.1%}")
    for what, each in (("time", errors), ("memory", memory)):
        print(f"{what}: median size of {len(each)} errors {statistics.median(map(abs, each)):.1%}, ", end="")
        print(f"from {min(each):+.0%} to {max(each):+.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--measure", nargs="?", const="cuda:0", metavar="DEVICE")
    parser.add_argument("--datasheet", help="a GPU that simgpu knows, in the place of the profile as measured")
    given = parser.parse_args()
    measure(given.file, given.measure) if given.measure else compare(given.file, given.datasheet)
