"""What simulating costs the host, as ratios from one run. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.overhead

Shapes only, with the log on and in CPU time: one operator, called by a module, against PyTorch's own FakeTensorMode;
and what one costs with a second stream, and a copy. With values: a training step against the CPU's, and against the
floor: a tensor subclass that only unwraps, calls and wraps, which is what PyTorch's way into Python costs before
anything is simulated. (The floor of an add with shapes only makes its result, and knows its shape beforehand.)
"""

import statistics
import time

import torch
from torch import nn

import simgpu

DEVICE = "simgpu:0"


def least_seconds(runs: dict, repeats: int, inner: int) -> dict:
    """CPU seconds of each, run in turns, the least of some repeats: what others on the machine change least."""
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.process_time()
            for _ in range(inner):
                run()
            times[name].append((time.process_time() - begin) / inner)
    return {name: min(values) for name, values in times.items()}


def median_seconds(runs: dict, repeats: int, inner: int = 1) -> dict:
    """Seconds of each, run in turns so that they meet the same machine."""
    times = {name: [] for name in runs}
    for _ in range(repeats + 2):
        for name, run in runs.items():
            begin = time.perf_counter()
            for _ in range(inner):
                run()
            times[name].append((time.perf_counter() - begin) / inner)
    return {name: statistics.median(values[2:]) for name, values in times.items()}


# --- shapes only ----------------------------------------------------------------------------------------------


class Add(nn.Module):
    def forward(self, x):
        return x + x


def operators(device):
    """Calls of modules by name, on small tensors of a device: forward, and forward with backward."""
    x = torch.empty(64, 64, device=device, requires_grad=True)
    image = torch.empty(4, 8, 16, 16, device=device, requires_grad=True)
    add, linear, conv2d = Add(), nn.Linear(64, 64, device=device), nn.Conv2d(8, 8, 3, device=device)
    calls = {"add": lambda: add(x), "linear": lambda: linear(x), "conv2d": lambda: conv2d(image)}
    ones = {name: torch.empty_like(call()) for name, call in calls.items()}

    def both(name):
        def run():
            calls[name]().backward(ones[name])

        return run

    return {f"{name}, forward": call for name, call in calls.items()} | {
        f"{name}, and backward": both(name) for name in calls
    }


def against_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    simgpu.enable(count=2, compute=False)
    ours = operators(DEVICE)
    fake_mode = FakeTensorMode()
    with fake_mode:
        theirs = operators("cpu")
        print("shapes only, microseconds        simulated   FakeTensorMode   ratio")
        for name in ours:
            with torch.set_grad_enabled("backward" in name):
                fake = least_seconds({name: theirs[name]}, 7, 200)[name]
                with no_mode():
                    mine = least_seconds({name: ours[name]}, 7, 200)[name]
            print(f"{name:<30}{mine * 1e6:>12.1f}{fake * 1e6:>17.1f}{fake / mine:>8.1f}")


class Wrapper(torch.Tensor):
    """The floor with shapes only: each result is 64 x 64, and nothing is known of what happened."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0] if func._schema.name.endswith("_") else wrapper()


def wrapper():
    return torch.Tensor._make_wrapper_subclass(
        Wrapper, (64, 64), (64, 1), 0, None, torch.float32, torch.strided, torch.device(DEVICE)
    )


def the_floor_of_an_add() -> None:
    x, ones = wrapper().requires_grad_(), wrapper()
    calls = {"add, forward": lambda: x + x, "add, and backward": lambda: (x + x).backward(ones)}
    with torch.autograd.set_multithreading_enabled(False):  # as simgpu has it
        for name, seconds in least_seconds(calls, 7, 200).items():
            print(f"{name + ', the floor':<30}{seconds * 1e6:>12.1f}")


def no_mode():
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@torch.no_grad()
def by_streams() -> None:
    """Operators outside of modules, on one stream and then with a second on the machine."""
    simgpu.enable(count=3, compute=False)
    simgpu.enable(count=2, compute=False)
    x = torch.empty(64, 64, device=DEVICE)
    calls = {
        "add": lambda: x + x,
        "view": lambda: x.view(-1),
        "copy to another device": lambda: x.to("simgpu:1"),
        "empty": lambda: torch.empty(64, 64, device=DEVICE),
    }
    one = least_seconds(calls, 7, 1000)
    with torch.simgpu.Stream(DEVICE):
        torch.empty(1, device=DEVICE)
    two = least_seconds(calls, 7, 1000)
    print("shapes only, microseconds       one stream      two streams   ratio")
    for name in calls:
        print(f"{name:<30}{one[name] * 1e6:>12.1f}{two[name] * 1e6:>17.1f}{two[name] / one[name]:>8.1f}")


# --- with values ------------------------------------------------------------------------------------------------


class Bare(torch.Tensor):
    """The floor: a device tensor of which nothing is known or simulated."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def value(x):
            return x.value if type(x) is Bare else [value(y) for y in x] if type(x) is list else x

        out = func._op(*map(value, args), **(kwargs or {}))
        if func.__name__.split(".")[0].endswith("_"):
            return args[0]
        return tuple(map(bare, out)) if type(out) is tuple else bare(out)


def bare(value):
    if value is None:
        return None
    tensor = torch.Tensor._make_wrapper_subclass(
        Bare, value.shape, value.stride(), 0, None, value.dtype, torch.strided, torch.device(DEVICE)
    )
    tensor.value = value
    return tensor


def resnet50():
    import torchvision

    return torchvision.models.resnet50(), torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True), 4)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.layers(x)[:, 0])


def transformer():
    return Encoder(), torch.randn(8, 64, 256), torch.randint(0, 10, (8,))


def training_step(make, place):
    """A step of SGD with everything on a place: "cpu", "simgpu:0", or "bare"."""
    torch.manual_seed(0)
    model, x, y = make()
    if place == "bare":
        for module in model.modules():
            for name, parameter in module._parameters.items():
                module._parameters[name] = None if parameter is None else nn.Parameter(bare(parameter.data))
            for name, buffer in module._buffers.items():
                module._buffers[name] = bare(buffer)
        x, y = bare(x), bare(y)
    else:
        model.to(place)
        x, y = x.to(place), y.to(place)
    parameters = list(model.parameters())
    optimizer = None if place == "bare" else torch.optim.SGD(parameters, lr=1e-3)

    def run():
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        if optimizer:
            optimizer.step()
        else:
            for parameter in parameters:
                parameter.value.add_(parameter.grad.value, alpha=-1e-3)

    return run


def against_the_cpu() -> None:
    simgpu.enable(count=3)
    simgpu.enable(count=2)
    print("with values, milliseconds           CPU   simulated  ratio    the floor  ratio")
    for name, make in (("ResNet50, 8 x 64 x 64", resnet50), ("Transformer, 8 x 64 x 256", transformer)):
        seconds = median_seconds({place: training_step(make, place) for place in ("cpu", DEVICE, "bare")}, 15)
        cpu, ours, floor = seconds.values()
        print(
            f"{name:<28}{cpu * 1e3:>11.1f}{ours * 1e3:>12.1f}{ours / cpu:>7.2f}{floor * 1e3:>13.1f}{floor / cpu:>7.2f}"
        )


if __name__ == "__main__":
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    against_fake_tensors()
    the_floor_of_an_add()
    by_streams()
    against_the_cpu()
