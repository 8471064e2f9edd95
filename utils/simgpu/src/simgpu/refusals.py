"""What simulated GPUs cannot do, refused in one line that names what to use instead."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from . import torch_private
from .hardware import DEVICE_TYPE, machine

aten = torch.ops.aten
NO_COMPILE = (
    f"torch.compile makes code for real hardware, which {DEVICE_TYPE} is not: call the model uncompiled, or call "
    'torch.compiler.set_stance("force_eager") first.'
)
NO_TRITON = (
    f"Triton compiles kernels for real hardware, which {DEVICE_TYPE} is not: call operators of PyTorch's instead (most "
    "libraries have a switch for it), or set TRITON_INTERPRET=1, and Triton computes its kernels in Python, slowly."
)
NO_RAW_STREAM = (
    f"A library's own CUDA kernel cannot run on {DEVICE_TYPE}, which has no stream that CUDA knows: call operators of "
    "PyTorch's instead, or the library's way for the CPU."
)
NO_BYTES = f"{DEVICE_TYPE} has no memory that another library could read: copy the tensor with .cpu() first."
NOT_AS_CUDA = (
    f"The simulated GPUs are {DEVICE_TYPE}:0 and so on. For code that is written for cuda, start it with "
    "SIMGPU_AS_CUDA=1, or run it in `with simgpu.as_cuda():`."
)
NO_STORAGE = (
    f"{DEVICE_TYPE} makes no storage by itself: torch.empty(bytes, dtype=torch.uint8, device=...).untyped_storage() "
    "is one."
)
NO_FLEX = (
    "FlexAttention is code that torch.compile makes for real hardware: "
    "write torch.nn.functional.scaled_dot_product_attention(..., attn_mask=...)."
)
PAST_THE_RING = (
    "This call of attention goes past context_parallel, and sees this rank's part of the sequence only: its name was "
    "imported before. Call torch.nn.functional.scaled_dot_product_attention by its whole name."
)
BACKWARD_PAST_THE_RING = (
    "A backward pass after context_parallel has ended takes each rank's part of the sequence for the whole: "
    "call backward() inside it."
)
NO_DROPOUT_IN_A_RING = (
    "context_parallel keeps the seed of the first block's dropout only, and would take the gradients of other weights "
    "than it dropped: pass dropout_p=0."
)
NO_DROPOUT_IN_KERNELS = (
    f"{DEVICE_TYPE} has this kernel of attention without dropout: call "
    "torch.nn.functional.scaled_dot_product_attention, which chooses a kernel."
)
NO_BIAS_IN_KERNELS = (
    f"{DEVICE_TYPE} has this kernel of attention without attn_bias, and not in float64: call "
    "torch.nn.functional.scaled_dot_product_attention, which chooses a kernel."
)
ONLY_THE_HOSTS = "Only dense CPU tensors can be pinned: leave out pin_memory=True for a tensor on a GPU."
ONLY_THE_HOSTS_SIDE = (
    f"The profiler has the host's side only: CUPTI knows nothing of {DEVICE_TYPE}. "
    "simgpu.log() has every kernel and copy."
)
FORKED = (  # as CUDA says it
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
    "'spawn' start method"
)
NO_HOST_MEMORY = (
    f"out of memory: {DEVICE_TYPE} keeps values in the memory of this computer, which has too little. "
    "simgpu.enable(compute=False) keeps shapes only."
)
NO_SPARSE = (
    f"{DEVICE_TYPE} keeps dense tensors only, no sparse, nested or quantized ones: keep those on the CPU. "
    "Nested ones with layout=torch.jagged are made of dense ones."
)
NO_DATA_PARALLEL = (
    f"nn.DataParallel copies inside CUDA's own C++, which {DEVICE_TYPE} cannot take part in. "
    "Use torch.nn.parallel.DistributedDataParallel, or write cuda for the devices, inside simgpu.as_cuda()."
)
NO_SHARING = (
    f"{DEVICE_TYPE} shares no memory with another process, as CUDA's IPC does: each process has GPUs of its own. Send "
    "tensor.cpu(), or a state_dict of such, and move it there; for training use DistributedDataParallel."
)
NO_SCRIPTS = (
    f"TorchScript loads, saves and moves modules inside C++, which {DEVICE_TYPE} cannot take part in: keep the "
    "state_dict of the module that the script was made from, or load and run the script on the CPU."
)


NO_WAITING_IN_A_CAPTURE = (
    "operation not permitted when stream is capturing: the host would wait for the GPU, or ask whether it is done. "
    "Do that before the capture, or after a replay."
)
NO_COPY_IN_A_CAPTURE = (
    "Cannot copy between CPU and GPU during CUDA graph capture unless the CPU tensor is pinned and non_blocking=True: "
    "neither .item(), .cpu() nor torch.tensor(...). Do that before the capture, or after a replay."
)
NO_COLLECTIVES_IN_A_CAPTURE = (
    f"{DEVICE_TYPE} captures no collectives and messages in a graph: call them between replays."
)
NO_STATE_IN_A_CAPTURE = (
    "Cannot seed a GPU's generator, or read or set its state, during CUDA graph capture: a replay would not do it "
    "again. Do that before the capture or between replays; activation checkpointing takes preserve_rng_state=False."
)
NO_REPLAY_IN_A_CAPTURE = (
    "operation not permitted when stream is capturing: a graph cannot become part of another. Replay it afterwards."
)
GRAPH_OF_ANOTHER_MACHINE = (
    "This graph was captured before simgpu.enable() changed the simulated machine, and went with it. Capture it again."
)


def of_one_gpu(captured: torch.device, other: torch.device) -> str:
    return (
        f"A graph is of one GPU: this one is captured on {named(captured)}, and here {named(other)} takes part. "
        "Capture one for each."
    )


def no_ring(of: str) -> str:
    """Why a call of attention cannot be shared by ranks, which need a kernel that gives the log-sum-exp."""
    return f"context_parallel has no ring, on CUDA neither, for {of}."


def no_cuda(what: str) -> str:
    return (
        f"there is no CUDA here: {DEVICE_TYPE} stands in for it, and {what} has no simulated form. What has one is "
        "said in simgpu.as_cuda's help."
    )


def kind() -> str:
    """The kind of device in messages of PyTorch's C++: the one that the program has named."""
    return machine.also_named.upper() if machine.also_named else DEVICE_TYPE


def named(device: torch.device) -> str:
    """A device as the program has named it: in code for CUDA simulated GPUs are cuda:0, cuda:1."""
    return str(device).replace(DEVICE_TYPE, machine.also_named or DEVICE_TYPE)


def no_generator(device: torch.device, of: torch.device) -> str:
    """Why a generator of another kind of device cannot draw on this one."""
    kind = named(device).partition(":")[0]
    return (
        f"Expected a '{kind}' device type for generator but found '{named(of).partition(':')[0]}': a generator draws "
        f"on its own device only. Seed the one that {named(device)} has, with torch.{kind}.manual_seed(...), "
        "or draw on the CPU and move the numbers with .to(...)."
    )


def of_the_cpu(error: RuntimeError, func) -> RuntimeError | None:
    """What to say in place of an error of the CPU's, which computes the values: it names the wrong device."""
    text = str(error)
    if "DefaultCPUAllocator: can't allocate memory" in text:
        return torch.OutOfMemoryError(NO_HOST_MEMORY)
    if not text.startswith("Could not run '"):
        return None
    if text.split("'")[1] in ATTENTION_KERNELS:  # which may be within an operator of somebody's own
        instead = "Call torch.nn.functional.scaled_dot_product_attention, which chooses a kernel."
    elif torch_private.kernel_from_python(func, "CUDA"):
        instead = "It has one for cuda, which is called inside simgpu.as_cuda()."
    elif machine.compute:
        instead = "Compute it from other operators, or on the CPU."
    else:
        instead = "A shape is all that there is with compute=False: torch.library.register_fake says which it has."
    return NotImplementedError(f"{func} has no kernel that {DEVICE_TYPE} could call. {instead}")


def no_values(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what} needs the values of a tensor, and this simulated machine keeps only shapes "
        "(simgpu.enable(compute=False)). Use simgpu.enable(compute=True) to have values."
    )


def no_subclass(cls: type) -> str:
    return (
        f"a tensor on a simulated GPU has a class of its own, and cannot become {cls.__name__}: keep it in an "
        "attribute of your class, or wrap it with __torch_dispatch__."
    )


def _no_data_parallel(parent: nn.Module, name: str, module: nn.Module) -> None:
    if isinstance(parent, nn.DataParallel) and name == "module" and not machine.also_named:
        simulated = any(parameter.device.type == DEVICE_TYPE for parameter in module.parameters())
        if simulated or not torch.cuda.is_available():  # without CUDA it would choose simulated GPUs
            raise RuntimeError(NO_DATA_PARALLEL)


def no_sharing(tensor):
    raise RuntimeError(NO_SHARING)


def no_sparse(*args, **kwargs):
    raise NotImplementedError(NO_SPARSE)


ATTENTION_KERNELS = {
    "aten::_scaled_dot_product_cudnn_attention",
    *(f"aten::_{name}_attention_forward" for name in ("flash", "efficient", "cudnn")),
}
# Operators that make a dense tensor sparse.
MAKE_SPARSE = [getattr(aten, f"_to_sparse{kind}").default for kind in ("", "_csr", "_csc", "_bsr", "_bsc")]
MAKE_SPARSE += [aten._to_sparse.sparse_dim]


_libraries: list[torch.library.Library] = []


def register_refusals() -> None:
    some, all_of_them = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        for name in ("empty.memory_format", "_to_copy"):
            some.impl(name, no_sparse, key)
    all_of_them.fallback(no_sparse, "NestedTensorPrivateUse1")
    _libraries.extend([some, all_of_them])
    register_module_module_registration_hook(_no_data_parallel)
