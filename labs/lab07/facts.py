"""Lab 07's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs next to the student's code and returns plain data; the fact judges it here. Bytes that backward keeps
are counted by hand; peaks and times are measured on the simulated devices, next to the student's answer.
"""

from functools import cache

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from utils.exercises.facts import Lab, Unmet, case, need, orders_of
from utils.exercises.facts.probes import build
from utils.exercises.facts.reference import need_devices
from utils.models.gpt import GPT
from utils.observe.trace import record

lab = Lab("lab07", "Choose the cut")


def near(mine, theirs):
    """Equal but for rounding in many layers: measured against the largest number, as small ones are sums of larger."""
    return mine.shape == theirs.shape and np.abs(mine - theirs).max() <= 2e-3 * max(np.abs(theirs).max(), 1e-3)


# --- ex1: saved activations on each device ------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    star=True,
    title="Saved activations on each device",
    hints=[
        "kept_by takes any layers and any input. Which layers are on the second device, and what is their input?",
        "Count each stage in its own call. A single call for the whole model counts the activation at the cut only "
        "once.",
        "A layer saves less if its input needs no gradient. Is the second stage's input still attached to the first "
        "stage's graph?",
    ],
)

LINEARS = [["Linear", 6, 8], ["Tanh"], ["Linear", 8, 4]]
SMOOTH = [["Linear", 6, 8], ["Tanh"], ["Tanh"], ["Sigmoid"], ["Linear", 8, 4]]
IMAGES = [["Conv2d", 3, 4, 3], ["BatchNorm2d", 4], ["ReLU"], ["MaxPool2d", 2], ["Flatten"], ["Linear", 16, 5]]


def ask_kept(lab, stack, cut, frozen, dtype, shape):
    import torch

    from utils.exercises.facts.probes import build, device_of, kind_of

    layers = build(stack)
    if dtype == "float64":
        layers.double()
    for number in frozen:
        layers[number].requires_grad_(False)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    found = lab.kept_on_each(layers, x, cut)
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found)}
    for size in found:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            return {"kind": f"a {type(found).__name__} that contains {kind_of(size)}"}
    sizes = [int(size) for size in found]  # what they run, they run before the layers are looked at
    strayed = [number for number, layer in enumerate(layers) if device_of(layer) not in ("cpu", "nowhere")]
    return {"kind": "", "sizes": sizes, "strayed": strayed}


def why_kept(second, mine, wanted, crossing, frozen) -> str:
    """The likeliest mistake where a device's bytes are wrong; `crossing` are those of the tensor at the cut."""
    if not second:
        return (
            "A layer saves only the tensors that its backward pass needs. A Linear saves its input, and a Tanh saves "
            "its output."
        )
    if frozen and mine > wanted:
        return (
            "No layer before the cut is trained, so the activation at the cut needs no gradient. The layers after the "
            "cut save less."
        )
    if mine == wanted - crossing:
        return (
            "The difference is the size of the activation at the cut. If a layer of the second stage saves its copy, "
            "count that copy, too."
        )
    if mine == wanted + crossing:
        return (
            "The difference is the size of the activation at the cut. Count it only if a layer of the second stage "
            "saves it, and only once."
        )
    return "Is the second stage's input the first stage's output with its graph attached?"


def compare_kept(student, stack, cut, shape, right, *, frozen=(), dtype="float32"):
    crossing = build(stack)[:cut](torch.zeros(shape)).numel() * getattr(torch, dtype).itemsize
    kinds = ", ".join(kind for kind, *_ in stack)
    words = " (the first layer is frozen)" if frozen else ""
    with case(f"With cut={cut}, x of shape {shape} in {dtype} and the layers {kinds}{words}"):
        seen = student.run(ask_kept, stack, cut, list(frozen), dtype, list(shape))
        need(not seen["kind"], f"kept_on_each returned {seen['kind']}. Return two integers, one for each device.")
        found = seen["sizes"]
        need(
            len(found) == 2,
            f"the result of kept_on_each has length {len(found)}. Return two integers, one for each device.",
        )
        need(
            tuple(found) != right[::-1] or right[0] == right[1],
            "kept_on_each returned the right numbers in the wrong order. The first device comes first.",
        )
        for device, mine, wanted in zip(("first", "second"), found, right, strict=True):
            why = why_kept(device == "second", mine, wanted, crossing, frozen)
            need(mine == wanted, f"the {device} device saves {wanted} bytes, but kept_on_each returned {mine}. {why}")
        need(
            not seen["strayed"],
            f"your code moved layers away from the CPU (indices {seen['strayed']}). Leave `layers` on the CPU.",
        )


@ex1.fact("the activation at the cut counts on both devices if a layer on each of them saves it")
def _(student):
    compare_kept(student, LINEARS, 2, (5, 6), (5 * 6 * 4 + 5 * 8 * 4, 5 * 8 * 4))


@ex1.fact("the activation at the cut counts on neither device if no layer saves it")
def _(student):
    compare_kept(student, LINEARS, 1, (5, 6), (5 * 6 * 4, 5 * 8 * 4))


@ex1.fact("the second stage also saves the tensors that the gradient of its input needs")
def _(student):
    compare_kept(student, SMOOTH, 1, (5, 6), (5 * 6 * 4, 3 * 5 * 8 * 4))


@ex1.fact("if no layer before the cut is trained, the second stage saves less")
def _(student):
    compare_kept(student, SMOOTH, 2, (5, 6), (0, 5 * 8 * 4), frozen=(0,))


# --- ex2: the peak, measured --------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=4,
    title="The peak, measured",
    hints=[
        "For each device, read the bytes in use and reset the peak before training. Read the peak after training.",
        "max_memory_allocated returns the peak since the last reset. This peak includes all other tensors on the "
        "device.",
        "copy.deepcopy(layers) returns a separate model. You can slice this copy and move each slice separately.",
        "Is your peak too low with many samples? A device holds more during the second step's forward pass than during "
        "the first step's. Which tensors does Adam keep?",
    ],
)

SQUARES = [["Linear", 128, 128] for _ in range(4)]
PAIRS = [layer for _ in range(3) for layer in (["Linear", 128, 128], ["Tanh"])]


def measured_peaks(stack, cut, samples, device0, device1) -> list[int]:
    """The most bytes in use on each device while the same is trained here, beyond those of before."""
    torch.manual_seed(0)
    trained, x = build(stack), torch.randn(samples, 128)
    gpu, devices = torch.get_device_module(device0), (device0, device1)
    before = [gpu.memory_allocated(device) for device in devices]
    for device in devices:
        gpu.reset_peak_memory_stats(device)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        trained.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    return [gpu.max_memory_allocated(device) - held for device, held in zip(devices, before, strict=True)]


def ask_peaks(lab, stack, cut, samples, already, device0, device1):
    import torch

    from utils.exercises.facts.probes import build, kind_of

    torch.manual_seed(0)
    layers, x = build(stack), torch.randn(samples, 128)
    for device in (device0, device1):
        torch.zeros(2_000_000, device=device)  # a peak from before
    there = torch.zeros(max(already, 1), device=device1)
    values = [p.detach().clone() for p in layers.parameters()]
    found = lab.peaks(layers, x, cut, torch.device(device0), torch.device(device1))
    kept = [str(p.device) == "cpu" and torch.equal(p, v) for p, v in zip(layers.parameters(), values, strict=True)]
    told = kind_of(found)
    if isinstance(found, (list, tuple)) and all(hasattr(each, "__index__") for each in found):
        told = [int(each) for each in found]
    return {"found": told, "kept": all(kept), "there": there.numel()}


EARLIER = 8_000_000  # bytes of the peak from before


def why_peak(mine, right, others, weights, all_weights, largest, already) -> str:
    """The likeliest mistake where a device's peak is wrong: `weights` are its own, `others` the other device's peak.

    `largest` is the largest of its parameters. All are in bytes, but for `already`, which is in numbers.
    """
    at_update = right < 5.1 * weights  # the peak is that of Adam's step, and not of a forward pass
    if mine == others:
        return "That is the peak of the other device."
    if mine > 0.9 * EARLIER:
        return "That peak was reached before your training. Call reset_peak_memory_stats first."
    if mine == all_weights:
        return "That is the size of the whole model's weights. Was the whole copy on this device at first?"
    if already and abs(mine - right - 4 * already) <= 0.01 * right:
        return f"{4 * already} of these bytes were in use before your training. Subtract them."
    if mine == 4 * weights + 2 * largest:
        return "That is the peak of Adam with foreach=False. Leave foreach at its default."
    if mine > right and abs(mine - right - weights) <= 4096 and not at_update and weights != all_weights - weights:
        return "Are the first step's gradients still in memory during the second forward pass? zero_grad() frees them."
    if mine > right:
        return "Did this device hold tensors that belong on the other one, such as layers, the output or the loss?"
    if mine == 4 * weights:
        return (
            "That is 4 times the weights, without Adam's temporary tensors. Read the peak, not the bytes in use at the "
            "end."
        )
    if abs(right - mine - weights) <= 4096:
        return "The weights of your copy are missing. Read the bytes in use before you move the layers."
    if abs(right - mine - 2 * weights) <= 4096 and at_update:
        return "Were the copy and the gradients of an earlier training run still on the device? Train only once."
    if abs(right - mine - 2 * weights) <= 4096:
        return "The optimizer state is missing. Run two steps: Adam has no state yet in the first forward pass."
    if mine < 1.5 * weights:
        return "That is hardly more than the weights. Do you compute gradients and call Adam's step()?"
    if mine < 3 * weights:
        return "Adam's state and temporary tensors are missing. Do you call step() of torch.optim.Adam?"
    return ""


def compare_peaks(student, words, stack, cut, samples, device0, device1, already=0):
    with case(words):
        seen = student.run(ask_peaks, stack, cut, samples, already, device0, device1)
        found = seen["found"]
        need(
            not isinstance(found, str),
            f"`peaks` returned {found}. Return two integers: the peak of each device in bytes.",
        )
        need(
            len(found) == 2, f"the result of `peaks` has length {len(found)}. Return two integers, one for each device."
        )
        need_devices(student)
        most = measured_peaks(stack, cut, samples, device0, device1)
        layers = build(stack)
        sizes = [[p.nbytes for p in stage.parameters()] for stage in (layers[:cut], layers[cut:])]
        own, largest = [sum(each) for each in sizes], [max(each) for each in sizes]
        there = 0, already  # the tensor from before is on device1
        for number, (mine, right) in enumerate(zip(found, most, strict=True)):
            why = why_peak(mine, right, most[1 - number], own[number], sum(own), largest[number], there[number])
            told = f"the peak of device{number} is {right} bytes, but your function returned {mine}. {why}"
            need(abs(mine - right) <= 0.06 * right, told)
        need(seen["kept"], "your function moved `layers` or changed its weights. Train a copy.")


@ex2.fact("with few samples, `peaks` returns the peak of Adam's step")
def _(student):
    compare_peaks(student, "With four equal layers and 8 samples, cut in the middle", SQUARES, 2, 8, *student.devices)


@ex2.fact("with many samples, `peaks` returns the second step's peak, which includes optimizer state and activations")
def _(student):
    words = "With three pairs of Linear and Tanh and 700 samples, cut after the second pair"
    compare_peaks(student, words, PAIRS, 4, 700, *student.devices)


@ex2.fact("each device holds only its own layers, even while the copy is moved")
def _(student):
    words = "With ten equal layers and 8 samples, cut after the first layer"
    compare_peaks(student, words, [["Linear", 128, 128]] * 10, 1, 8, *student.devices)


@ex2.fact("`peaks` returns each device's own peak and does not count other tensors on the devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            words = "With another tensor on device1 and four equal layers, cut after the first"
            compare_peaks(student, words, SQUARES, 1, 16, device0, device1, already=50_000)


# --- ex3: the fastest cut that fits --------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=3,
    title="The fastest cut that fits",
    hints=[
        "Measure each layer once, or both stages of each cut. What does a layer need to run forward and backward by "
        "itself?",
        "output.sum().backward() starts a backward pass. detach() separates a layer's input from the previous layer.",
        "Once you have the time of each layer, which two sums belong to a cut, and which of the two sets the pace?",
        "Find the cut in `allowed` for which the sum that sets the pace is smallest. min takes a key function.",
    ],
)

# What the layers are, and the shape of x.
MODELS = {
    "wide layers at the end": (
        [["Linear", 64, 64], ["Tanh"], ["Linear", 64, 512], ["Tanh"], ["Linear", 512, 512]],
        (512, 64),
    ),
    "convolutions in front": (
        [
            *(["Conv2d", 3, 32, 3], ["Tanh"], ["Conv2d", 32, 32, 3], ["Tanh"], ["MaxPool2d", 4], ["Flatten"]),
            *(["Linear", 512, 1024], ["Tanh"], ["Linear", 1024, 10]),
        ],
        (32, 3, 20, 20),
    ),
    # By forward alone cut 4 is the best. Its slower stage takes 1.34 times as long as that of cut 3.
    "matrix products before norms": ([["Linear", 256, 256]] * 4 + [["BatchNorm1d", 256]] * 6, (512, 256)),
    # Tanh's backward is only there for its input's gradient. Without it cut 1 is the best, 1.48 times as slow as cut 2.
    "matrix products before Tanh layers": ([["Linear", 256, 256]] * 2 + [["Tanh"]] * 8, (512, 256)),
    # By backward alone cut 2 is the best. Its slower stage takes 1.4 times as long as that of cut 1.
    "a wide input": ([["Linear", 3072, 64], ["Linear", 64, 64], ["Linear", 64, 512]], (128, 3072)),
    # With the gradient of x cut 1 is the best. Its slower stage takes 1.28 times as long as that of cut 2.
    "a wide activation inside": ([["Linear", 64, 3072], ["Linear", 3072, 64], ["Linear", 64, 2048]], (128, 64)),
    "matrix products at the end": (
        [["Linear", 16, 512], ["Tanh"], ["Sigmoid"], ["Tanh"], ["Sigmoid"], ["Linear", 512, 512], ["Linear", 512, 512]],
        (512, 16),
    ),
}


def ask_cut(lab, stack, shape, allowed, device):
    import torch

    from utils.exercises.facts.probes import build, kind_of

    torch.manual_seed(0)
    layers, x = build(stack), torch.randn(*shape)
    found = lab.choose_cut(layers, x, list(allowed), torch.device(device))
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40} ({kind_of(found)})"
    return int(found)


def slower_stages(stack, shape, allowed, device, mistake="") -> dict[int, float]:
    """The busy seconds of the slower stage of each cut, measured here layer by layer, or as one measures by mistake."""
    torch.manual_seed(0)
    layers, given = build(stack).to(device), torch.randn(*shape).to(device)
    seconds = []
    for number, layer in enumerate(layers):
        wanted = {"x needed a gradient": True, "no input needed a gradient": False}.get(mistake, number > 0)
        given = given.detach().requires_grad_(wanted)
        with record(device) as forward:
            output = layer(given)
        gradient = torch.ones_like(output)
        with record(device) as backward:
            if output.requires_grad:
                output.backward(gradient)
        passes = {"only forward counted": [forward], "only backward counted": [backward]}.get(mistake)
        seconds.append(sum(timeline.busy(device) for timeline in passes or [forward, backward]))
        given = output
    return {cut: max(sum(seconds[:cut]), sum(seconds[cut:])) for cut in allowed}


MISTAKES = "only forward counted", "only backward counted", "x needed a gradient", "no input needed a gradient"


def why_cut(stack, shape, allowed, device, found, slower) -> str:
    """The mistake by which `found` would be the best cut, where some of them would do that."""
    mistaken = {each: slower_stages(stack, shape, allowed, device, each) for each in MISTAKES}
    leads_there = [each for each in MISTAKES if min(mistaken[each], key=mistaken[each].get) == found]
    if 0 < len(leads_there) < len(MISTAKES):
        return f"Cut {found} would be the fastest if {' or '.join(leads_there)}."
    if len(allowed) > 2 and slower[found] == max(slower.values()):
        return f"Cut {found} is the slowest allowed cut. Minimize the time of the slower stage, measured on {device}."
    return f"Measure the layers on {device}, both forward and backward, with the whole batch x."


def judge_cut(student, model, allowed, device):
    stack, shape = MODELS[model]
    with case(f"For a model with {model}, x of shape {shape} and allowed={allowed}"):
        found = student.run(ask_cut, stack, list(shape), allowed, device)
        need(not isinstance(found, str), f"choose_cut returned {found}. Return a cut as an integer.")
        need(found in allowed, f"choose_cut returned {found}, which is not in `allowed`.")
        need_devices(student)
        slower = slower_stages(stack, shape, allowed, device)
        best = min(slower, key=slower.get)
        if slower[found] > 1.1 * slower[best]:
            raise Unmet(
                f"with cut {found} (layers[:{found}] and layers[{found}:]), the slower stage takes "
                f"{slower[found] * 1e6:.0f} microseconds. With cut {best}, it takes only {slower[best] * 1e6:.0f}. "
                f"{why_cut(stack, shape, allowed, device, found, slower)}"
            )


@ex3.fact("choose_cut returns the cut whose slower stage is fastest")
def _(student):
    judge_cut(student, "wide layers at the end", [1, 2, 3, 4], student.devices[0])


@ex3.fact("choose_cut measures time on the given device, even if the slowest layers have few weights")
def _(student):
    judge_cut(student, "convolutions in front", list(range(1, 9)), student.devices[1])


@ex3.fact("the backward pass counts as well as the forward pass, and their times are not proportional")
def _(student):
    judge_cut(student, "matrix products before norms", list(range(1, 10)), student.devices[0])


@ex3.fact("the activation at a cut needs a gradient, and so do all later activations")
def _(student):
    judge_cut(student, "matrix products before Tanh layers", [1, 2], student.devices[0])


@ex3.fact("the forward pass counts as well as the backward pass, and x itself needs no gradient")
def _(student):
    judge_cut(student, "a wide input", [1, 2], student.devices[0])
    judge_cut(student, "a wide activation inside", [1, 2], student.devices[0])


@ex3.fact("choose_cut returns the best allowed cut if the best cut of all is not allowed")
def _(student):
    judge_cut(student, "wide layers at the end", [1, 2, 3], student.devices[0])
    judge_cut(student, "convolutions in front", [5, 6, 7, 8], student.devices[0])


# --- ex4: split a GPT ---------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="Split a GPT",
    hints=[
        "Write down each module's device, then follow the tokens. Which tensors does a block get, and from which "
        "device?",
        "head.weight is embed.weight, even after .to(). How many parameters does your model have, and how "
        "many does GPT have?",
        "The shared weight is on one device but has two uses. Which tensors could cross so that both work? Which of "
        "these tensors is the smallest?",
        "The embedding lookup and the first block can run on different devices. nn.functional.linear(x, weight) takes "
        "any weight on x's device, even one that belongs to no module.",
    ],
    likely={
        "The size of tensor a": "In each forward pass, cut cos and sin to the number of tokens in the input.",
        "got indices is on": "head.weight is embed.weight. If you move one of the two modules, the weight of both "
        "moves.",
        "Expected all tensors": "Each block needs x, cos and sin on its own device, for any device0 and device1.",
    },
)

RATE = 0.5  # of plain SGD
LEAST_WORK = 0.75  # of the operations of the model's products: in attention half of them may be left out
SIZES = {"vocab_size": 300, "hidden_size": 16, "heads": 2, "longest": 32}


def run_gpt(lab, blocks, cut, device0, device1, seed, tokens, rate):
    import torch

    from utils.exercises.facts.probes import array
    from utils.models.gpt import GPT
    from utils.observe.trace import record

    torch.manual_seed(seed)
    model = GPT(vocab_size=300, hidden_size=16, heads=2, blocks=blocks, longest=32)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    split = lab.SplitGPT(model, cut, torch.device(device0), torch.device(device1))
    found = [[list(p.shape), array(p).ravel()[:3], str(p.device)] for p in split.parameters()]
    with record(device0, device1) as timeline:
        output = split(torch.from_numpy(tokens))
        output.square().mean().backward()
    work = {}
    for event in timeline.events:
        if event.is_kernel:
            work[event.device] = work.get(event.device, 0) + event.flops
    gradients = [None if p.grad is None else array(p.grad).ravel()[:3000] for p in split.parameters()]
    torch.optim.SGD(split.parameters(), lr=rate).step()
    with torch.no_grad():
        updated = split(torch.from_numpy(tokens))
    return {
        "parameters": found,
        "output": array(output),
        "updated": array(updated),
        "device": str(output.device),
        "gradients": gradients,
        "work": work,
        "crossed": sum(event.bytes for event in timeline.events if event.kind == "d2d"),
    }


@cache
def whole_gpt(blocks, seed, shape):
    """The same on one device: each parameter's name, beginning and gradient, output, that after an update, the work."""
    torch.manual_seed(seed)
    model = GPT(blocks=blocks, **SIZES)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    inputs = torch.from_numpy(some_tokens(shape, seed))
    with FlopCounterMode(display=False) as counted:
        output = model(inputs)
        output.square().mean().backward()
    told = {
        name: (list(p.shape), p.detach().numpy().ravel()[:3].copy(), p.grad.numpy().ravel()[:3000])
        for name, p in model.named_parameters()
    }
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=RATE)
        return told, output.detach().numpy(), model(inputs).numpy(), counted.get_total_flops()


def some_tokens(shape, seed):
    return torch.randint(SIZES["vocab_size"], shape, generator=torch.Generator().manual_seed(seed)).numpy()


def compare_gpt(student, blocks, cut, shape, device0, device1, seed=1):
    with case(f"With {blocks} blocks, cut={cut} and tokens of shape {shape}"):
        seen = student.run(run_gpt, blocks, cut, device0, device1, seed, some_tokens(shape, seed), RATE)
        parameters, output, updated, work = whole_gpt(blocks, seed, shape)
        count = len(seen["parameters"])
        need(
            count == len(parameters),
            f"the split model has {count} parameters, but GPT has {len(parameters)}."
            + (" Did the shared weight become two parameters?" if count == len(parameters) + 1 else "")
            + (" PyTorch does not see layers in a plain list." if count < len(parameters) else ""),
        )
        gradients = {}
        for name, (size, begin, _) in parameters.items():
            same = [n for n, (s, b, _) in enumerate(seen["parameters"]) if s == size and np.allclose(b, begin)]
            need(bool(same), f"no parameter has the values of {name}. Use the weights of `model`.")
            found = seen["parameters"][same[0]][2]
            if name.startswith("blocks."):
                wanted = device0 if int(name.split(".")[1]) < cut else device1
                need(found == wanted, f"{name} is on {found}, but it should be on {wanted}.")
            gradients[name] = seen["gradients"][same[0]]
        need(seen["device"] == device1, f"the output is on {seen['device']}, but it should be on device1, {device1}.")
        need(
            near(seen["output"], output),
            "the output differs from that of the model on one device. Do all blocks run in order, followed by the "
            "norm?",
        )
        none = [name for name in parameters if gradients[name] is None]
        need(
            not none,
            f"after backward(), {len(none)} of {len(parameters)} parameters have no gradient, such as "
            f"{', '.join(none[:2])}. Did detach() or no_grad() disconnect them from the loss?",
        )
        for name, (_, _, right) in parameters.items():
            both = (
                " The embedding and the head both use this weight. Is one of the two gradients lost?"
                if name == "embed.weight"
                else ""
            )
            need(near(gradients[name], right), f"the gradient of {name} has the wrong values.{both}")
        need(
            near(seen["updated"], updated),
            "after one update, the output differs from that of the model after the same update. A copy made in "
            "__init__ is not updated, so copy the weight in forward.",
        )
        done = sum(seen["work"].values())
        need(
            not device0.startswith("simgpu") or done >= LEAST_WORK * work,
            f"the two devices perform only {done / work:.0%} of the model's operations. Where does the rest run?",
        )


@ex4.fact("split in the middle, SplitGPT gives the same output, gradients and update as the model on one device")
def _(student):
    compare_gpt(student, 4, 2, (3, 10), *student.devices)


@ex4.fact("SplitGPT works with another cut, another sequence length and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_gpt(student, 3, 1, (2, 5), device0, device1, seed=2)


def run_sequences(lab, blocks, cut, device0, device1, seed, sequences):
    import torch

    from utils.exercises.facts.probes import array
    from utils.models.gpt import GPT

    torch.manual_seed(seed)
    model = GPT(vocab_size=300, hidden_size=16, heads=2, blocks=blocks, longest=32)
    split = lab.SplitGPT(model, cut, torch.device(device0), torch.device(device1))
    with torch.no_grad():
        return [array(split(torch.from_numpy(tokens))) for tokens in sequences]


@ex4.fact("one SplitGPT takes sequences of several lengths, one after another")
def _(student):
    sequences = [some_tokens(shape, seed=4) for shape in ((2, 6), (3, 11), (1, 4))]
    torch.manual_seed(4)
    whole = GPT(blocks=2, **SIZES)
    for number, found in enumerate(student.run(run_sequences, 2, 1, *student.devices, 4, sequences)):
        tokens = sequences[number]
        with case(f"With tokens of shape {tokens.shape}, the model's {('first', 'second', 'third')[number]} input"):
            right = whole(torch.from_numpy(tokens)).detach().numpy()
            need(near(found, right), "the output differs from that of the model on one device.")


# The model answer moves 17.0 KB: x to device0, from there to device1, and both gradients, 4 KB each, and the tables.
@ex4.scored(par=17, unit=" KB copied between the devices in one step; lower is better")
def _(student):
    seen = student.run(run_gpt, 4, 2, *student.devices, 3, some_tokens((4, 16), 3), RATE)
    return seen["crossed"] / 1024
