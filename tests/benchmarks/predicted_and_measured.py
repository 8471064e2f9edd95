"""How well a simulated GPU predicts a real one: training steps measured on it, and predicted from its profile.

The profile is measured first (`simgpu.measure_profile`), on nothing but matrix products, a copy and tiny kernels;
then 24 training steps are measured, then simulated. Needs a GPU. Run it by hand:

    .venv/bin/python tests/benchmarks/predicted_and_measured.py [cuda:0]
"""

import statistics
import sys

import torch
import torchvision
from torch import nn

from utils import simgpu

WARM_UP, STEPS = 5, 20


def mlp():
    return nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(4096, 4096), nn.ReLU())), nn.Linear(4096, 10))


def encoder():
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), nn.Flatten(), nn.LazyLinear(10))


def resnet50():
    return torchvision.models.resnet50(num_classes=10)


# name: the model, the shape of one sample, batch sizes
MODELS = {
    "ResNet50": (resnet50, (3, 224, 224), (8, 32, 64, 128)),
    "Transformer": (encoder, (256, 1024), (4, 8, 16, 32)),
    "MLP": (mlp, (4096,), (64, 512, 2048, 8192)),
}
CASES = [
    (name, batch, dtype)
    for name, (_, _, batches) in MODELS.items()
    for batch in batches
    for dtype in (torch.float32, torch.bfloat16)
]


def stepper(name: str, batch: int, dtype: torch.dtype, device: torch.device):
    make, shape, _ = MODELS[name]
    torch.manual_seed(0)
    with torch.device(device):
        model = make().to(dtype)
        x, y = torch.randn(batch, *shape, dtype=dtype), torch.zeros(batch, dtype=torch.long)
        model(x)  # lazy layers get their shapes
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).float(), y).backward()
        optimizer.step()

    return step


def seconds(step, device: torch.device) -> float:
    """Seconds a step, from events of the device around many."""
    module = torch.get_device_module(device)
    start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
    for _ in range(WARM_UP):
        step()
    module.synchronize(device)
    start.record()
    for _ in range(STEPS):
        step()
    end.record()
    module.synchronize(device)
    return start.elapsed_time(end) / 1e3 / STEPS


def main(name: str = "cuda:0") -> None:
    real = torch.device(name)
    try:
        profile = simgpu.measure_profile(real)
    except RuntimeError as error:
        raise SystemExit(f"This benchmark needs a GPU. {error}") from None
    print(profile)
    measured = {}
    for case in CASES:
        try:
            measured[case] = seconds(stepper(*case, real), real)
        except torch.OutOfMemoryError:
            print(f"{case}: does not fit")
        torch.get_device_module(real).empty_cache()
    simgpu.enable(count=1, gpu=profile, compute=False)
    print(f"{'measured on ' + profile.name:<44}measured  predicted   error")
    errors = []
    for case, there in measured.items():
        here = seconds(stepper(*case, torch.device("simgpu:0")), torch.device("simgpu:0"))
        errors.append(abs(here / there - 1))
        model, batch, dtype = case
        print(f"{model:<14}batch {batch:>5}  {dtype!s:<16}", end="")
        print(f"{there * 1e3:>9.2f} ms{here * 1e3:>8.2f} ms{here / there - 1:>+8.1%}")
    print(f"median error of {len(errors)} cases: {statistics.median(errors):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
