"""What is written daily for CUDA, one row each: it works and gives this, or it is refused in these words."""

import io
import pickle
import warnings

import pytest
import torch
from torch.utils.data import DataLoader, random_split

import simgpu

F = torch.nn.functional
GPU0, GPU1 = torch.device("cuda:0"), torch.device("cuda:1")
CLOCK = 15.7e12 / (2 * 80 * 64)  # of a V100: its peak, over two operations a cycle of 64 units in 80 multiprocessors


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)
    yield
    simgpu.enable(count=2)
    for gpu in range(2):
        torch.simgpu.set_per_process_memory_fraction(1.0, gpu)


def on(device, *values):
    return torch.tensor(values or (1.0, 2.0), device=device)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


# --- operators of one's own ---------------------------------------------------------------------------------------

LIBRARY = torch.library.Library("as_cuda", "DEF")
LIBRARY.define("both(Tensor x) -> Tensor")
LIBRARY.define("only_cuda(Tensor x) -> Tensor")
LIBRARY.define("named(Tensor x) -> Tensor")
LIBRARY.impl("both", lambda x: x + 1, "CPU")
LIBRARY.impl("both", lambda x: x + 100, "CUDA")
LIBRARY.impl("only_cuda", lambda x: x * 7, "CUDA")
SEEN = []


@torch.library.custom_op("as_cuda::thrice", mutates_args=(), device_types="cpu")
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@thrice.register_kernel("cuda")
def _(x):
    SEEN.append(type(x).__name__)
    return x * 300


thrice.register_autograd(lambda ctx, gradient: gradient * 300)


def custom_op_with_gradient():
    x = on("cuda:1").requires_grad_()
    thrice(x).sum().backward()
    return thrice(x).tolist(), x.grad.tolist()


def kernel_that_names_cuda():
    LIBRARY.impl("named", lambda x: x + torch.ones(2, device="cuda"), "CUDA")
    return torch.ops.as_cuda.named(on("cuda")).tolist()


# --- random numbers -----------------------------------------------------------------------------------------------


def drawn(draw):
    """What a generator of GPU 1 draws twice from one seed, and a CPU's generator once: three times the same."""
    generator = torch.Generator("cuda:1").manual_seed(3)
    state, first = generator.get_state(), draw("cuda:1", generator).tolist()
    generator.set_state(state)
    again = draw("cuda:1", generator).tolist()
    return first == again == draw("cpu", torch.Generator().manual_seed(3)).tolist()


DRAWS = {
    "rand": lambda device, g: torch.rand(5, device=device, generator=g),
    "randn": lambda device, g: torch.randn(5, device=device, generator=g),
    "randint": lambda device, g: torch.randint(9, (5,), device=device, generator=g),
    "randperm": lambda device, g: torch.randperm(9, device=device, generator=g),
    "normal": lambda device, g: torch.normal(0.0, 1.0, (5,), device=device, generator=g),
    "normal_": lambda device, g: torch.empty(5, device=device).normal_(generator=g),
    "uniform_": lambda device, g: torch.empty(5, device=device).uniform_(generator=g),
    "bernoulli": lambda device, g: torch.bernoulli(torch.full((9,), 0.5, device=device), generator=g),
    "multinomial": lambda device, g: torch.multinomial(torch.ones(9, device=device), 4, generator=g),
    "nn.init": lambda device, g: torch.nn.init.xavier_normal_(torch.empty(3, 3, device=device), generator=g),
}


def generator_leaves_the_gpus_own_alone():
    before = torch.cuda.get_rng_state()
    torch.rand(3, device="cuda", generator=torch.Generator("cuda"))
    return torch.equal(before, torch.cuda.get_rng_state())


def offsets():
    generator = torch.Generator(device="cuda").manual_seed(5)
    torch.rand(3, device="cuda", generator=generator)
    twin, copied = generator.clone_state(), pickle.loads(pickle.dumps(generator))
    told, offset = torch.Generator("cuda:1").set_state(generator.get_state()), generator.get_offset()
    first, *same = (torch.rand(3, device=g.device, generator=g).tolist() for g in (generator, twin, copied, told))
    return offset, same == [first] * 3, told.device


# --- optimizers and lists of tensors ------------------------------------------------------------------------------


def stepped(kind, device):
    """The weights after two fused steps with a learning rate in a tensor, which is on the CPU."""
    weight = torch.nn.Parameter(on(device, 1.0, -2.0, 3.0))
    optimizer = kind([weight], lr=torch.tensor(0.1), fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
    return weight.detach().cpu()


def adagrad_as_on_the_cpu():
    results = []
    for device in ("cpu", "cuda"):
        weight = on(device).requires_grad_()
        optimizer = torch.optim.Adagrad([weight], lr=torch.tensor(0.5))
        for _ in range(2):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        results.append(weight.detach().cpu())
    return torch.equal(*results)


def fused_as_on_the_cpu():
    kinds = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad
    return all(torch.equal(stepped(kind, "cuda"), stepped(kind, "cpu")) for kind in kinds)


def ctc(device):
    probabilities = torch.linspace(-1, 1, 6 * 2 * 4, device=device).reshape(6, 2, 4).log_softmax(2).requires_grad_()
    targets, lengths = torch.tensor([[1, 2], [3, 1]], device=device), (torch.tensor([6, 5]), torch.tensor([2, 1]))
    loss = F.ctc_loss(probabilities, targets, *lengths)
    loss.backward()
    return loss.detach().cpu(), probabilities.grad.cpu()


def ctc_as_on_the_cpu():
    return all(map(torch.equal, ctc("cuda"), ctc("cpu")))


# --- streams, memory, modules of torch.cuda -----------------------------------------------------------------------


def devices_of_streams():
    stream, event, fresh = torch.cuda.Stream(GPU1), torch.cuda.Event(), torch.cuda.Event()
    event.record(stream)
    return [stream.device, event.device, fresh.device, torch.cuda.current_stream(1).device]


def streams_by_the_general_classes():
    stream = torch.Stream("cuda:1", priority=-1)
    event = torch.Event("cuda:1", enable_timing=True)
    with stream:
        torch.ones(1000, device="cuda:1")
        event.record(stream)
    event.synchronize()
    return (
        (type(stream) is type(torch.cuda.current_stream()), isinstance(stream, torch.Stream), stream.device_index),
        (stream.query(), event.query(), isinstance(event, torch.Event)),
        (torch.cuda.ExternalStream(stream.cuda_stream, device=1) == stream, torch.cuda.current_stream().cuda_stream),
    )


def seconds_of_sleep():
    torch.cuda.synchronize()
    begin = simgpu.now()
    torch.cuda._sleep(10**8)
    torch.cuda.synchronize()
    return simgpu.now() - begin == pytest.approx(10**8 / CLOCK, rel=1e-3)


def share_of_the_memory():
    torch.cuda.set_per_process_memory_fraction(0.5, 1)
    torch.empty(10**9, device="cuda:1")  # 4 of 16 GB
    return torch.empty(25 * 10**8, device="cuda:1")


def scripted(model=None):
    """A file with a script module, and the module as it is read from there."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(model or torch.nn.Linear(2, 2), torch.ones(1, 2)), file)
    file.seek(0)
    return file


def packed_attention():
    from torch.nn.attention.varlen import varlen_attn

    x, ends = torch.ones(8, 1, 8, device="cuda", dtype=torch.bfloat16), on("cuda", 0, 8).int()
    return varlen_attn(x, x, x, ends, ends, 8, 8)


def default_type():
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    try:
        made = torch.ones(2)
        return made.device, made.dtype
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")


def made_by_the_default_type():
    torch.set_default_tensor_type(torch.cuda.HalfTensor)
    try:
        made = (
            torch.Tensor(2, 3, 1),
            torch.Tensor(4),
            torch.Tensor(torch.Size([5])),
            torch.Tensor(),
            torch.Tensor([1, 2]),
        )
        assert torch.nn.Parameter(torch.Tensor(2)).device.type == "cuda"
        return [(str(x.device), x.dtype, tuple(x.shape)) for x in made]
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
        assert torch.Tensor(2, 3).device.type == "cpu"


def kept_on_the_cpu():
    x = on("cuda").requires_grad_()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        out = (x * x).sum()
    out.backward()
    return x.grad.tolist()


def saved_where_a_hook_says():
    x = on("cuda").requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to("cuda:1"), lambda t: t.to("cuda:0")):
        out = (x * x).sum()
    out.backward()
    return x.grad.tolist()


def profiled():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kinds = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
            on("cuda").sum()
    heard = [str(each.message) for each in told if "CUPTI" in str(each.message)]
    return len(heard), any("aten::sum" in each.key for each in profile.key_averages())


class Mine(torch.Tensor):
    pass


class Quantized(torch.nn.Parameter):
    def __new__(cls, data, requires_grad=False):
        return torch.Tensor._make_subclass(cls, data, requires_grad)


def device_in_backward():
    """Where `cuda` is in a Function's backward, in a hook, and afterwards."""
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            with torch.cuda.device(0):
                seen.append(torch.zeros(1, device="cuda").device)
            seen.append(torch.cuda.current_device())
            return gradient * 2 + torch.zeros(2, device="cuda")

    x = on("cuda:1").requires_grad_()
    x.register_hook(lambda gradient: seen.append(torch.cuda.current_device()))
    Twice.apply(x).cpu().sum().backward()
    return seen, torch.cuda.current_device()


def properties():
    own = torch.cuda.get_device_properties(0)
    fields = own.warp_size, own.shared_memory_per_block, own.max_threads_per_multi_processor, own.clock_rate
    fields += (own.L2_cache_size,)
    return fields, own.uuid == torch.cuda.get_device_properties(0).uuid != torch.cuda.get_device_properties(1).uuid


WORKS = {
    # an operator's kernel for cuda
    "Library.impl(..., 'CUDA')": (lambda: torch.ops.as_cuda.both(on("cuda")).tolist(), [101, 102]),
    "the CPU's kernel, on the CPU": (lambda: torch.ops.as_cuda.both(on("cpu")).tolist(), [2, 3]),
    "a kernel for cuda only": (lambda: torch.ops.as_cuda.only_cuda(on("cuda")).tolist(), [7, 14]),
    "register_kernel('cuda'), with its gradient": (custom_op_with_gradient, ([300, 600], [300, 300])),
    "a kernel that names cuda": (kernel_that_names_cuda, [2, 3]),
    # generators
    **{f"generator: {name}": (lambda draw=draw: drawn(draw), True) for name, draw in DRAWS.items()},
    "generator: states, copies": (offsets, (4, True, GPU1)),
    "generator: the GPU's own is another": (generator_leaves_the_gpus_own_alone, True),
    "generator: seeds": (lambda: torch.Generator("cuda").manual_seed(9).initial_seed(), 9),
    "generator: of one that was not seeded": (
        lambda: torch.Generator("cuda").initial_seed() == torch.Generator().initial_seed(),
        True,
    ),
    "generator: isinstance": (
        lambda: [isinstance(g, torch.Generator) for g in (torch.Generator(), torch.Generator("cuda"))],
        [True, True],
    ),
    "generator: device": (lambda: torch.Generator(device="cuda:1").device, GPU1),
    "default_generators": (
        lambda: (len(torch.cuda.default_generators), torch.cuda.default_generators[1].device),
        (2, GPU1),
    ),
    # numbers on the CPU
    "ctc_loss, lengths on the CPU": (ctc_as_on_the_cpu, True),
    "_foreach_mul with a number on the CPU": (
        lambda: [t.tolist() for t in torch._foreach_mul([on("cuda")] * 2, torch.tensor(3.0))],
        [[3, 6], [3, 6]],
    ),
    "_foreach_div_ with a number on the CPU": (
        lambda: torch._foreach_div_([on("cuda")], torch.tensor(2.0))[0].tolist(),
        [0.5, 1],
    ),
    "_foreach_mul with a list of numbers on the CPU": (
        lambda: [t.tolist() for t in torch._foreach_mul([on("cuda")] * 2, [torch.tensor(3.0), torch.tensor(5.0)])],
        [[3, 6], [5, 10]],
    ),
    "_foreach_sub_ with a list of numbers on the CPU": (
        lambda: torch._foreach_sub_([on("cuda")], [torch.tensor(1.0)], alpha=2)[0].tolist(),
        [-1, 0],
    ),
    "Adagrad, lr in a tensor": (adagrad_as_on_the_cpu, True),
    "fused optimizers, lr in a tensor": (fused_as_on_the_cpu, True),
    # names of types
    ".type(name)": (lambda: torch.ones(2).type("torch.cuda.HalfTensor").dtype, torch.float16),
    ".type(name): device": (lambda: torch.ones(2).type("torch.cuda.FloatTensor").device, GPU0),
    ".type(class)": (lambda: torch.ones(2).type(torch.cuda.LongTensor).device, GPU0),
    ".type() of a tensor that stays where it is": (lambda: on("cuda:1").type(torch.cuda.LongTensor).device, GPU1),
    ".type()": (lambda: on("cuda").type(), "torch.cuda.FloatTensor"),
    ".type() on the CPU": (lambda: torch.ones(2).type(), "torch.FloatTensor"),
    ".type(a CPU's)": (lambda: on("cuda").type("torch.DoubleTensor").device, torch.device("cpu")),
    "torch.cuda.FloatTensor": (lambda: torch.cuda.FloatTensor([1, 2]).tolist(), [1, 2]),
    "isinstance of it": (lambda: [isinstance(on(d), torch.cuda.FloatTensor) for d in ("cuda", "cpu")], [True, False]),
    "set_default_tensor_type": (default_type, (GPU0, torch.float64)),
    "torch.Tensor(...) of it": (
        made_by_the_default_type,
        [("cuda:0", torch.float16, shape) for shape in ((2, 3, 1), (4,), (5,), (0,), (2,))],
    ),
    # streams and memory
    "torch.Stream, torch.Event": (streams_by_the_general_classes, ((True, True, 1), (True, True, True), (True, 0))),
    "a stream's device, an event's": (devices_of_streams, [GPU1, GPU1, None, GPU1]),
    "torch.Event of the CPU": (lambda: torch.Event("cpu").device, torch.device("cpu")),
    "torch.cuda.Stream('cuda')": (lambda: torch.cuda.Stream("cuda:1").device_index, 1),
    "torch.cuda._sleep": (seconds_of_sleep, True),
    "max_memory_cached": (lambda: torch.cuda.max_memory_cached() == torch.cuda.max_memory_reserved(), True),
    "memory_stats_as_nested_dict": (
        lambda: torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"],
        0,
    ),
    "list_gpu_processes": (lambda: torch.cuda.list_gpu_processes(1).startswith("GPU:1\nprocess"), True),
    "get_device_properties": (properties, ((32, 48 * 2**10, 2048, round(CLOCK / 1e3), 6 * 2**20), True)),
    "is_bf16_supported": (lambda: torch.cuda.is_bf16_supported(including_emulation=False), False),
    "isinstance(x, torch.cuda.device)": (
        lambda: [isinstance(x, torch.cuda.device) for x in (0, torch.cuda.device(0))],
        [False, True],
    ),
    # A build of PyTorch for the CPU has none.
    "cudnn.version": (lambda: (torch.backends.cudnn.version() or 90001) > 90000, True),
    "current_accelerator": (lambda: torch.accelerator.current_accelerator(), torch.device("cuda")),
    "a script on the CPU": (lambda: torch.jit.load(scripted(), map_location="cpu")(torch.ones(1, 2)).shape, (1, 2)),
    "a script made on the GPU": (
        lambda: (
            torch.jit.trace(torch.nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda"))(
                torch.ones(1, 2, device="cuda")
            ).device
        ),
        GPU0,
    ),
    # tensors that go elsewhere
    "torch.load, a function: a CPU's tensor": (
        lambda: torch.load(saved(torch.ones(2)), map_location=lambda storage, where: storage.cuda(1)).device,
        GPU1,
    ),
    "torch.load, a function: to another GPU": (
        lambda: torch.load(saved(on("cuda")), map_location=lambda storage, where: storage.cuda(1)).device,
        GPU1,
    ),
    "torch.load, a function: to the CPU": (
        lambda: torch.load(saved(on("cuda")), map_location=lambda storage, where: storage).device,
        torch.device("cpu"),
    ),
    "torch.load, a function: where it was": (
        lambda: torch.load(saved(on("cuda:1")), map_location=lambda storage, where: None).device,
        GPU1,
    ),
    "torch.load, a function: is told cuda": (
        lambda: (torch.load(saved(on("cuda:1")), map_location=lambda _, where: SEEN.append(where)), SEEN.pop())[1],
        "cuda:1",
    ),
    "tensor.storage()": (lambda: on("cuda").storage().data_ptr() > 0, True),
    "share_memory_": (lambda: on("cuda").share_memory_().is_shared(), True),
    "pin_memory=True": (
        lambda: [
            make(2, pin_memory=True).is_pinned() for make in (torch.empty, torch.zeros, torch.randn, torch.arange)
        ],
        [True] * 4,
    ),
    "pin_memory=True, a leaf": (
        lambda: torch.zeros(2, pin_memory=True, requires_grad=True).is_leaf,
        True,
    ),
    "save_on_cpu(pin_memory=True)": (kept_on_the_cpu, [2, 4]),
    "hooks of saved tensors that name cuda": (saved_where_a_hook_says, [2, 4]),
    "the profiler": (profiled, (1, True)),
    "nested, jagged": (
        lambda: (torch.nested.nested_tensor([on("cpu")], device="cuda", layout=torch.jagged) * 2).sum().item(),
        6,
    ),
    # the current device in a backward pass is the node's
    "a backward pass on GPU 1": (device_in_backward, ([GPU0, 1, 1], 0)),
}

NO_BYTES = "has no memory that another library could read"
REFUSED = {
    "a generator of the CPU": (lambda: torch.rand(2, device="cuda", generator=torch.Generator()), "'cuda' device type"),
    "a GPU's generator, on the CPU": (
        lambda: torch.randperm(3, generator=torch.Generator("cuda")),
        "'cpu' device type",
    ),
    "a GPU's generator, in a split": (
        lambda: random_split(range(3), [1, 2], generator=torch.Generator("cuda")),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "_foreach_mul with numbers on the CPU": (
        lambda: torch._foreach_mul([on("cuda")], torch.ones(2)),
        "other is on cpu, different from other tensors on cuda:0",
    ),
    "_foreach_add with a number on the CPU and alpha, as on CUDA": (
        lambda: torch._foreach_add([on("cuda")], torch.tensor(2.0), alpha=2),
        "other is on cpu, different from other tensors on cuda:0",
    ),
    "4 TB": (lambda: torch.empty(10**12, device="cuda"), "CUDA out of memory. Tried to allocate 3725.29 GiB"),
    "4 TB, drawn": (lambda: torch.randn(10**12, device="cuda"), "Tried to allocate 3725.29 GiB"),
    "4 TB, counted": (lambda: torch.arange(10**12, device="cuda"), "Tried to allocate 7450.58 GiB"),
    "4 TB, of one number": (lambda: on("cuda", 1.0).expand(10**12) + 1, "Tried to allocate 3725.29 GiB"),
    "4 TB, of two columns": (
        lambda: torch.ones(10**6, 1, device="cuda") @ torch.ones(1, 10**6, device="cuda"),
        "Tried to allocate 3725.29 GiB",
    ),
    "4 TB, copied": (lambda: torch.ones(1).expand(10**12).to("cuda"), "Tried to allocate 3725.29 GiB"),
    "4 TB, out=": (
        lambda: torch.cat([on("cuda", 1.0).expand(10**12)], out=on("cuda")),
        "Tried to allocate 3725.29 GiB",
    ),
    "a share of the memory": (share_of_the_memory, "GPU 1 has a total capacity of 14.90 GiB, 7.45 GiB allowed"),
    "a GPU that there is not": (
        lambda: torch.ones(1, device="cuda:7"),
        "CUDA error: invalid device ordinal: there is no cuda:7. This machine has 2 simulated GPUs: cuda:0, cuda:1;",
    ),
    "set_device": (lambda: torch.cuda.set_device(7), "CUDA error: invalid device ordinal"),
    "a share that is none": (lambda: torch.cuda.set_per_process_memory_fraction(2.0), "Allowed range: 0.0 to 1.0"),
    "ExternalStream": (lambda: torch.cuda.ExternalStream(140123), "no stream of simgpu has the handle 140123"),
    "MemPool": (lambda: torch.cuda.MemPool(), "no pools of memory"),
    "use_mem_pool": (lambda: torch.cuda.use_mem_pool(None).__enter__(), "no pools of memory"),
    "memory_snapshot of a pool": (lambda: torch.cuda.memory_snapshot((0, 1)), "no pools of memory"),
    "caching_allocator_alloc": (
        lambda: torch.cuda.caching_allocator_alloc(512),
        "torch.empty(bytes, dtype=torch.uint8",
    ),
    "memory_usage": (lambda: torch.cuda.memory_usage(), "no sensors and no NVML"),
    "temperature": (lambda: torch.cuda.temperature(), "no sensors and no NVML"),
    "cudart": (
        lambda: torch.cuda.cudart(),
        "there is no CUDA here: simgpu stands in for it, and torch.cuda.cudart has",
    ),
    "a stream for a library's kernel": (
        lambda: torch._C._cuda_getCurrentRawStream(0),
        "A library's own CUDA kernel cannot run on simgpu",
    ),
    "an untyped storage": (lambda: torch.UntypedStorage(4, device="cuda"), "there is no CUDA here"),
    "the number of a bus": (lambda: torch.cuda.get_device_properties(0).pci_bus_id, "says nothing of pci_bus_id"),
    "pinned on a GPU": (lambda: torch.ones(2, device="cuda", pin_memory=True), "Only dense CPU tensors can be pinned"),
    "to_dlpack": (lambda: torch.utils.dlpack.to_dlpack(on("cuda")), NO_BYTES),
    "from_dlpack": (lambda: torch.from_dlpack(on("cuda")), NO_BYTES),
    "__cuda_array_interface__": (lambda: on("cuda").__cuda_array_interface__, NO_BYTES),
    "nested, on the GPU": (
        lambda: torch.nested.nested_tensor([torch.ones(2)], device="cuda") + 1,
        "dense tensors only",
    ),
    "nested, in a layer": (
        lambda: torch.nn.Linear(2, 2).cuda()(torch.nested.nested_tensor([torch.ones(1, 2)], device="cuda")),
        "dense tensors only",
    ),
    "nested, moved": (lambda: torch.nested.nested_tensor([torch.ones(2)]).to("cuda"), "dense tensors only"),
    "nested, of tensors on the GPU": (lambda: torch.nested.as_nested_tensor([on("cuda")]), "dense tensors only"),
    "a subclass that moves": (lambda: torch.ones(2).as_subclass(Mine).to("cuda"), "cannot become Mine"),
    "a subclass that is made": (lambda: on("cuda").as_subclass(Mine), "cannot become Mine"),
    "a subclass as bitsandbytes has it": (lambda: Quantized(on("cuda")), "cannot become Quantized"),
    "a flash kernel by its name, in float32": (
        lambda: torch.ops.aten._scaled_dot_product_flash_attention(*[torch.ones(1, 1, 8, 8, device="cuda")] * 3),
        "FlashAttention only support fp16 and bf16",
    ),
    "a flash kernel by its name, with dropout": (
        lambda: torch.ops.aten._scaled_dot_product_flash_attention(
            *[torch.ones(1, 1, 8, 8, device="cuda").half()] * 3, dropout_p=0.5
        ),
        "without dropout: call torch.nn.functional.scaled_dot_product_attention",
    ),
    "a memory-efficient kernel by its name, with a bias": (
        lambda: torch.ops.aten._scaled_dot_product_efficient_attention(
            *[torch.ones(1, 1, 8, 8, device="cuda")] * 4, True
        ),
        "without attn_bias, and not in float64",
    ),
    "cuDNN's attention by its name": (
        lambda: torch.ops.aten._scaled_dot_product_cudnn_attention(
            *[torch.ones(1, 1, 8, 8, device="cuda").half()] * 3, None, True
        ),
        "Call torch.nn.functional.scaled_dot_product_attention",
    ),
    "attention of packed sequences": (packed_attention, "Call torch.nn.functional.scaled_dot_product_attention"),
    "torch.jit.load": (lambda: torch.jit.load(scripted(), map_location="cuda"), "load and run the script on the CPU"),
    "torch.jit.load, a device": (lambda: torch.jit.load(scripted(), torch.device("cuda", 1)), "TorchScript loads"),
    "a script that moves": (lambda: torch.jit.load(scripted()).cuda(), "TorchScript loads"),
    "torch.jit.save": (
        lambda: torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2).cuda()), io.BytesIO()),
        "TorchScript loads, saves and moves modules inside C++",
    ),
    "flex_attention": (
        lambda: flex(*[torch.ones(1, 1, 16, 16, device="cuda")] * 3),
        "FlexAttention is code that torch.compile makes",
    ),
    "two GPUs": (lambda: on("cuda:0") + on("cuda:1"), "at least two devices, cuda:0 and cuda:1"),
    "a CPU's tensor": (
        lambda: torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2)),
        "on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
    ),
}
ANOTHERS = (
    "NVIDIA driver",
    "driver version",
    "PrivateUse1",
    "TypedStorage",
    "Dynamo",
    "Handler",
    "CPU' backend",
    "NVML_",
)


def flex(*args):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*args)


@pytest.mark.parametrize("what", WORKS)
@pytest.mark.filterwarnings("ignore")
def test_it_works_as_on_cuda(what):
    does, gives = WORKS[what]
    with simgpu.as_cuda():
        assert does() == gives


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_it_is_refused_in_one_line_that_says_what_to_write(what):
    does, says = REFUSED[what]
    with simgpu.as_cuda(), pytest.raises((RuntimeError, BufferError, TypeError, AttributeError, ValueError)) as refused:
        does()
    told = str(refused.value)
    assert says in told
    assert len(told.splitlines()) == 1
    assert not any(word in told for word in ANOTHERS)


@pytest.mark.parametrize("what", [what for what in REFUSED if what.startswith(("4 TB", "a share of"))])
def test_too_much_memory_is_pytorchs_error_for_it(what):
    with simgpu.as_cuda(), pytest.raises(torch.OutOfMemoryError):
        REFUSED[what][0]()
    with simgpu.as_cuda():
        assert on("cuda").tolist() == [1, 2]


@pytest.mark.parametrize(
    "make", [lambda: torch.empty(10**14, device="simgpu:0"), lambda: on("simgpu:0").repeat(10**13)]
)
def test_what_this_computer_cannot_hold_is_out_of_memory_too(make):
    simgpu.enable(count=1, memory=10**15)
    with pytest.raises(torch.OutOfMemoryError, match="simgpu keeps values in the memory of this computer"):
        make()


def test_a_kernel_for_cuda_is_given_simulated_tensors_and_called_inside_only():
    SEEN.clear()
    x = on("simgpu:0")
    assert thrice(x).tolist() == [3, 6]
    with simgpu.as_cuda():
        assert thrice(x).tolist() == [300, 600]
    assert thrice(x).tolist() == [3, 6]
    assert SEEN == ["SimTensor"]
    with pytest.raises(NotImplementedError, match=r"has no kernel that simgpu could call\. It has one for cuda"):
        torch.ops.as_cuda.only_cuda(x)


def test_a_kernel_for_simgpu_is_called_anywhere():
    LIBRARY.define("own(Tensor x) -> Tensor")
    LIBRARY.impl("own", lambda x: x - 1, "PrivateUse1")
    assert torch.ops.as_cuda.own(on("simgpu:1")).tolist() == [0, 1]


def test_nothing_of_it_stays():
    names = [(torch, "Generator"), (torch, "Stream"), (torch, "Event"), (torch, "set_default_tensor_type")]
    names += [(torch.cuda, "FloatTensor"), (torch.UntypedStorage, "cuda"), (torch.library.Library, "impl")]
    before = [getattr(*name) for name in names]
    with simgpu.as_cuda():
        assert not any(now is then for now, then in zip([getattr(*n) for n in names], before, strict=True))
    assert [getattr(*name) for name in names] == before


# --- processes that are forked ------------------------------------------------------------------------------------


class Items(torch.utils.data.Dataset):
    def __init__(self, how):
        self.how, self.held = how, on("cuda") if how == "held" else None

    def __len__(self):
        return 1

    def __getitem__(self, _):
        return {
            "made": lambda: torch.ones(2, device="cuda"),
            "moved": lambda: torch.ones(2).cuda(),
            "held": lambda: (self.held + 1).max().item(),
            "asked": lambda: torch.cuda.current_device(),
            "on the CPU": lambda: torch.rand(2),
        }[self.how]()


def from_a_worker(how):
    return next(iter(DataLoader(Items(how), num_workers=1, multiprocessing_context="fork")))


@pytest.mark.parametrize("how", ["made", "moved", "held", "asked"])
def test_a_forked_worker_may_not_use_gpus_that_its_parent_has_used(how):
    with simgpu.as_cuda():
        on("cuda")
        with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
            from_a_worker(how)
        assert from_a_worker("on the CPU").shape == (1, 2)
        assert on("cuda").tolist() == [1, 2]


def test_a_forked_worker_makes_tensors_of_the_cpu_also_where_gpu_1_is_the_current_one():
    with simgpu.as_cuda(), torch.cuda.device(1):
        on("cuda")
        loader = DataLoader([1, 2], batch_size=2, num_workers=1, multiprocessing_context="fork")
        assert next(iter(loader)).tolist() == [1, 2]


def test_a_forked_worker_may_use_gpus_that_its_parent_has_not_used():
    simgpu.enable(count=3)  # a new machine
    with simgpu.as_cuda():
        assert from_a_worker("asked").tolist() == [0]


def test_outside_of_code_for_cuda_a_fork_is_as_before():
    with simgpu.as_cuda():
        items = Items("held")
    assert next(iter(DataLoader(items, num_workers=1, multiprocessing_context="fork"))).tolist() == [3.0]


def test_mixed_precision_goes_back_with_shapes_only():
    """The gradient of a sum of float32 and bfloat16 is converted by PyTorch itself, which names no device."""
    simgpu.enable(count=1, compute=False)
    with simgpu.as_cuda():
        x, weight = (torch.empty(3, 3, device="cuda", requires_grad=True) for _ in range(2))
        with torch.autocast("cuda", torch.bfloat16):
            (x + torch.nn.functional.linear(x, weight)).sum().backward()
        assert (str(weight.grad.device), weight.grad.dtype) == ("cuda:0", torch.float32)


def test_gradients_that_are_given_to_edges_of_the_graph_are_where_the_edges_are():
    with simgpu.as_cuda():
        x = torch.ones(3, device="cuda:1", requires_grad=True)
        edge = torch.autograd.graph.get_gradient_edge(x * 2)
        (gradient,) = torch.autograd.grad([edge], [x], [torch.full((3,), 5.0, device="cuda:1")])
        assert gradient.tolist() == [10, 10, 10]
        edge = torch.autograd.graph.get_gradient_edge(x * 2)
        with pytest.raises(RuntimeError, match="invalid gradient: expected device"):
            torch.autograd.grad([edge], [x], [torch.ones(3, device="cuda:0")])


@pytest.mark.skipif(torch.cuda.is_available(), reason="cuda is there")
def test_the_error_of_code_that_runs_outside_of_it_says_how_to_run_it():
    for ask in (lambda: torch.ones(2, device="cuda"), torch.cuda.synchronize):
        with pytest.raises((AssertionError, RuntimeError)) as raised:
            ask()
        assert ["SIMGPU_AS_CUDA=1" in note for note in raised.value.__notes__] == [True]
