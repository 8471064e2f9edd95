"""Every private PyTorch name that this project uses, and nothing else.

PyTorch calls its Python device backend experimental, so these names may move between releases.
When they do, this is the only file to mend: the rest of the project uses public names.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial, wraps
from importlib.abc import MetaPathFinder

import torch
import torch.multiprocessing.reductions
from torch import _tensor_str
from torch.utils import _device, _python_dispatch, backend_registration

# Versions whose private names were tried: the first that has them all, and the newest that was tested.
FIRST_TESTED = (2, 11)
LAST_TESTED = (2, 15)

NUMBER_OF_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)
AUTOCAST_KEY = "AutocastPrivateUse1"
# A context that sees every operator which runs inside it.
DispatchMode = _python_dispatch.TorchDispatchMode
disabled_torch_function = torch._C._disabled_torch_function_impl
make_wrapper = torch.Tensor._make_wrapper_subclass


def torch_version() -> tuple[int, int]:
    """(major, minor) of the PyTorch that is running."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def require_tested_torch() -> None:
    """Raise RuntimeError where this PyTorch lacks what a Python device needs, naming versions that have it."""
    tested = f"torch {'.'.join(map(str, FIRST_TESTED))} to {'.'.join(map(str, LAST_TESTED))}"
    if torch_version() < FIRST_TESTED:
        raise RuntimeError(
            f"simgpu was tested with {tested}, and this is torch {torch.__version__}. "
            f"Install a newer one: pip install 'torch>={'.'.join(map(str, FIRST_TESTED))}'"
        )
    missing = [
        name
        for owner, name in (
            (backend_registration, "_setup_privateuseone_for_python_backend"),
            (torch._C, "_acc"),
            (torch._C, "_autograd"),
        )
        if not hasattr(owner, name)
    ]
    if missing:
        raise RuntimeError(
            f"simgpu needs {', '.join(missing)}, which torch {torch.__version__} no longer has. "
            f"It was tested with {tested}: install one of those."
        )


def register_device_type(name: str, device_module: object, backward: Callable[[], AbstractContextManager]) -> None:
    """Make `name` a device type of PyTorch, with `device_module` as `torch.<name>`. `backward` is around each backward
    pass.

    PyTorch has one such slot (PrivateUse1) in a process and cannot give it back.
    Raises RuntimeError where another backend has taken it.
    """

    class Guard(torch._C._acc.DeviceGuard):
        # PyTorch also asks this while an exception leaves a backward pass, with the exception still pending, and
        # ends the process if the answer fails, as any Python call does then. So a pending exception is taken
        # out here, and raised again where the backward pass was called. Only names that are local are safe to
        # use before that: looking up a global would fail.
        def type_(self, provoke=_raise_what_is_pending, answer=torch._C._autograd.DeviceType.PrivateUse1):
            try:
                provoke()
            except BaseException as pending:
                _thread.pending = pending
            return answer

    class Hooks(torch._C._acc.PrivateUse1Hooks):
        def is_available(self):
            return True

        def has_primary_context(self, index):
            return True

        def is_built(self):
            return True

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", name):
        raise RuntimeError(
            f"simgpu needs PyTorch's one free device slot, and '{taken}' has taken it in this process. "
            f"Restart Python and do not import '{taken}' beside simgpu."
        )
    hooks, guard = Hooks(), Guard()
    backend_registration._setup_privateuseone_for_python_backend(name, device_module, hooks, guard)
    _kept_alive.extend([hooks, guard])
    torch.autograd._engine_run_backward = _raising_what_was_taken(torch.autograd._engine_run_backward, name, backward)


def _raising_what_was_taken(run_backward, name, backward):
    """The autograd engine's entry, raising the exception that the device guard had to take out of its way."""

    def run(outputs, gradients, *args, **kwargs):
        __tracebackhide__ = True
        for output, gradient in zip(outputs, gradients, strict=False):
            if isinstance(gradient, torch.Tensor) and gradient.dim():
                _require_same_device(_device_of(output), gradient.device, name)
        try:
            with backward(), _Unpinned() if _find_unused else nullcontext():
                return run_backward(outputs, gradients, *args, **kwargs)
        except SystemError:  # the engine failed, and has no exception to say why
            pending = _thread.__dict__.pop("pending", None)
            if pending is None:
                raise
        raise pending

    return run


@contextmanager
def also_in_calls_back(mode: torch.overrides.TorchFunctionMode) -> Iterator[None]:
    """Inside, hooks, `Function.backward` and kernels of a program's own run with a mode, too.

    PyTorch takes a mode away while the mode calls a function, and `Tensor.backward` is such a function.
    """
    autograd = torch.autograd  # when a process ends, the module is gone before the mode is
    run_backward = autograd._engine_run_backward

    def run(*args, **kwargs):
        __tracebackhide__ = True
        with _translated():
            return run_backward(*args, **kwargs)

    global _translation
    before, _translation = _translation, mode
    autograd._engine_run_backward = run
    try:
        yield
    finally:
        autograd._engine_run_backward = run_backward
        _translation = before


_translation: torch.overrides.TorchFunctionMode | None = None


def let_loading_ask(is_ours: Callable[[object], bool], ask: Callable) -> None:
    """Let `ask` say where `torch.load(map_location=a function)` puts a tensor that was saved with a device of ours.

    It is called with the function and with the device.
    """
    restore = torch._utils._get_restore_location

    @wraps(restore)
    def asked(device):
        map_location = torch.serialization._serialization_tls.map_location
        return ask(map_location, device) if callable(map_location) and is_ours(device) else restore(device)

    torch._utils._get_restore_location = asked


def refuse_bytes_and_subclasses(is_simulated, no_bytes: str, no_subclass: Callable[[type], str]) -> None:
    """Refuse what would take a simulated tensor for a piece of memory, or make it one of another class."""
    to_dlpack, make_subclass = torch._C._to_dlpack, torch.Tensor._make_subclass

    @wraps(to_dlpack)
    def to_capsule(tensor):
        if is_simulated(tensor):
            raise BufferError(no_bytes)
        return to_dlpack(tensor)

    @wraps(make_subclass)
    def make(kind, data, *args, **kwargs):
        if is_simulated(data) and not issubclass(type(data), kind):
            raise TypeError(no_subclass(kind))
        return make_subclass(kind, data, *args, **kwargs)

    for owner, name in ((torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")):
        setattr(owner, name, to_capsule)
    torch.Tensor._make_subclass = staticmethod(make)


def _translated() -> AbstractContextManager:
    """A context with the mode of `also_in_calls_back`, where PyTorch has taken it away."""
    is_on = _translation is None or _translation in torch.overrides._get_current_function_mode_stack()
    return nullcontext() if is_on else _translation


def translating(call):
    """A function that PyTorch will call back, running with the mode."""
    if not callable(call) or call is torch.library.fallthrough_kernel:
        return call

    @wraps(call)
    def run(*args, **kwargs):
        with _translated():
            return call(*args, **kwargs)

    return run


def _require_same_device(expected: torch.device, got: torch.device, name: str) -> None:
    # PyTorch checks this itself, but not for tensor subclasses.
    if got != expected and name in (got.type, expected.type):
        raise RuntimeError(
            f"invalid gradient: expected device {expected} but got {got}. "
            "The gradient given to backward has to be where the output is."
        )


def _device_of(output) -> torch.device:
    """Where an output of the graph is: a tensor, or an edge, of which the graph knows it."""
    if isinstance(output, torch.autograd.graph.GradientEdge):
        output = output.node._input_metadata[output.output_nr]
    return output.device


_kept_alive: list[object] = []
# A call into Python's C API checks for a pending exception when it returns, and raises it.
_raise_what_is_pending = ctypes.pythonapi.Py_IsInitialized
_thread = threading.local()


def keep_backward_on_calling_thread() -> None:
    """Run this thread's backward passes on this thread.

    The Python device guard answers for one device only, so the autograd engine's own device threads
    cannot serve a second one. The flag is per thread, hence called where every operator passes.
    """
    if not getattr(_thread, "done", False):
        torch.autograd.set_multithreading_enabled(False)
        _thread.done = True


def keep_parameters_when_modules_move(is_simulated, own: set[str]) -> None:
    """Let `module.to(device)` keep its Parameter objects when it crosses between the CPU and a simulated GPU.

    On CUDA a moved Parameter is the same object, so an optimizer made before the move and tied weights go on
    working. PyTorch does that by exchanging the data inside, which it cannot do between a CPU tensor and one of
    another class: it makes new Parameters, and optimizer and ties are silently cut. So after PyTorch's own
    conversion each old Parameter becomes its successor, and keeps what a program has noted on it: all attributes
    but a simulated tensor's `own`. Modules that never meet a simulated GPU are untouched.
    """
    convert = torch.nn.Module._apply
    if hasattr(convert, "keeps_parameters"):
        return

    def apply(module, fn, recurse=True):
        put_back = _without_lazy(module, fn)
        before = dict(module._parameters)
        try:
            result = convert(module, fn, recurse)
        finally:
            put_back()
        for name, old in before.items():
            new = module._parameters[name]
            if new is not old and old is not None and (is_simulated(old) or is_simulated(new)):
                noted = {name: value for name, value in vars(old).items() if name not in own | {"_is_param"}}
                vars(new).update(noted)
                _exchange(old, new)
                module._parameters[name] = old
        return result

    apply.keeps_parameters = True
    torch.nn.Module._apply = apply


def let_lazy_modules_wait(is_simulated) -> None:
    """Let a module without shapes (`nn.LazyLinear`) be made on a simulated GPU or moved to one.

    Its parameters have no numbers yet. They stay on the CPU, remember the device, and are made there.
    """
    lazy = torch.nn.parameter
    mixin, make_it_real = lazy.UninitializedTensorMixin, lazy.UninitializedTensorMixin.materialize
    if hasattr(make_it_real, "knows_simulated_gpus"):
        return

    def materialize(self, shape, device=None, dtype=None):
        device = device or self.__dict__.pop("_wanted_on", None)
        if device is None or not is_simulated(new := torch.empty(shape, device=device, dtype=dtype or self.dtype)):
            return make_it_real(self, shape, device, dtype)
        needs_gradient = self.requires_grad
        self.__class__ = self.cls_to_become
        if isinstance(self, torch.nn.Parameter):
            new = torch.nn.Parameter(new, needs_gradient)
        _exchange(self, new)

    materialize.knows_simulated_gpus = True
    mixin.materialize = materialize
    for kind in (lazy.UninitializedParameter, lazy.UninitializedBuffer):
        kind.__new__ = staticmethod(_remembering(kind.__new__, is_simulated))


def _remembering(make, is_simulated):
    arguments_of = inspect.signature(make).bind

    def __new__(*args, **kwargs):
        arguments = arguments_of(*args, **kwargs).arguments
        wanted = torch.empty(0, device=arguments.get("device"))
        if not is_simulated(wanted):
            return make(*args, **kwargs)
        made = make(**arguments | {"device": "cpu"})
        made._wanted_on = wanted.device
        return made

    return __new__


def _without_lazy(module, fn):
    """Take parameters and buffers without numbers out of a module that moves; returns what puts them back."""
    taken = [
        (tensors, name, tensor)
        for tensors in (module._parameters, module._buffers)
        for name, tensor in tensors.items()
        if torch.nn.parameter.is_lazy(tensor)
    ]
    for tensors, name, tensor in taken:
        tensors[name] = None
        moved = fn(torch.empty(0, dtype=tensor.dtype, device=tensor.__dict__.pop("_wanted_on", None)))
        tensor._wanted_on = moved.device
        if moved.dtype is not tensor.dtype:
            tensor.data = tensor.data.to(moved.dtype)

    def put_back():
        for tensors, name, tensor in taken:
            tensors[name] = tensor

    return put_back


def _exchange(old: torch.Tensor, new: torch.Tensor) -> None:
    # What torch.utils.swap_tensors does, without its refusal where an earlier output still holds the weights.
    old.__class__, new.__class__ = new.__class__, old.__class__
    old.__dict__, new.__dict__ = new.__dict__, old.__dict__
    torch._C._swap_tensor_impl(old, new)


def let_optimizers_update_all_at_once(kind: type) -> None:
    """Let optimizers and gradient clipping choose their `foreach` form for this class, as they do on CUDA."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        supported = importlib.import_module(name)._foreach_supported_types
        if kind not in supported:
            supported.append(kind)


def let_accelerator_ask(module) -> None:
    """Let the functions of `torch.accelerator` that end in C++, which knows no Python device, ask `module`."""
    names = {
        "current_device_index": "current_device",
        "current_device_idx": "current_device",
        "set_device_index": "set_device",
        "set_device_idx": "set_device",
        "device_index": "device",
        "get_memory_info": "mem_get_info",
    }
    same = """current_stream set_stream synchronize empty_cache get_device_capability memory_stats memory_allocated
        max_memory_allocated memory_reserved max_memory_reserved reset_peak_memory_stats"""
    for name, ours in {**names, **{name: name for name in same.split()}}.items():
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, _another(getattr(module, ours)))


def _another(function):
    """A function equal to no other: torch.compile refuses one that stands in two places."""
    return function if isinstance(function, type) else wraps(function)(partial(function))


def let_names_mean_the_current_device(kind: str, current: Callable[[], int]) -> None:
    """Let `kind` without a number mean device `current()` where PyTorch would resolve it in C++, which says 0.

    Factories are asked for the name as it was written; `x.to(kind)` and what copies data from the host are not.
    """
    _device._device_constructors()  # PyTorch keeps these functions as they are now, to know them again

    def numbered(value):
        is_named = type(value) in (str, torch.device) and str(value) == kind
        return torch.device(kind, current()) if is_named else value

    def resolved(function):
        @wraps(function)
        def on_the_current(*args, **kwargs):
            if current():
                args, kwargs = map(numbered, args), {name: numbered(value) for name, value in kwargs.items()}
            return function(*args, **kwargs)

        return on_the_current

    for owner, name in ((torch.Tensor, "to"), (torch, "tensor"), (torch, "as_tensor"), (torch, "asarray")):
        setattr(owner, name, resolved(getattr(owner, name)))


_float32_precision = torch._C._get_fp32_precision_getter


def rounds_float32(what: str) -> bool:
    """Whether PyTorch's switches let float32 be rounded to TF32 on CUDA, in a "matmul", a "conv" or an "rnn".

    All of them end here: `torch.backends.cuda.matmul.allow_tf32`, `torch.backends.cudnn.allow_tf32`,
    `torch.set_float32_matmul_precision`, and `fp32_precision` of any of `torch.backends`.
    """
    return _float32_precision("cuda", what) == "tf32"


# --- torch.distributed ------------------------------------------------------------------------------------------

FIRST_WITH_PYTHON_BACKENDS = (2, 15)
c10d = getattr(torch._C, "_distributed_c10d", None)  # None where PyTorch was built without
Backend, Work, ReduceOp = (getattr(c10d, name, object) for name in ("Backend", "Work", "ReduceOp"))


def has_python_backends() -> bool:
    """Whether a backend of torch.distributed can be written in Python."""
    return c10d is not None and torch_version() >= FIRST_WITH_PYTHON_BACKENDS


def keep_off_the_flight_recorder(name: str) -> None:
    """Tell PyTorch that groups of the backend `name` record themselves.

    Its flight recorder keeps the last collectives of a group, for a look after a hang. To attach it to a backend that
    is written in Python ends the process under Python 3.13 (PyTorch 2.15.0, a segmentation fault).
    """
    recorders = getattr(torch.distributed.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", None)
    if recorders is not None:
        recorders.add(name)


def keep_off_the_wrapper_of_groups(kind: type) -> None:
    """Let TORCH_DISTRIBUTED_DEBUG=DETAIL leave backends of this kind as they are.

    PyTorch wraps a group then, to compare what its ranks are about to do, as ours do always. The wrapper is C++ that
    asks a backend for its name, and does not find a method in Python (2.15.0).
    """
    groups = torch.distributed.distributed_c10d
    wrapper = getattr(groups, "_create_process_group_wrapper", None)
    if wrapper is None or hasattr(wrapper, "leaves"):
        return

    @wraps(wrapper)
    def wrapped(wrapped_pg, *args, **kwargs):
        return wrapped_pg if isinstance(wrapped_pg, kind) else wrapper(wrapped_pg, *args, **kwargs)

    wrapped.leaves = kind
    groups._create_process_group_wrapper = wrapped


def gloo(store, rank: int, ranks: int, timeout):
    """A process group that moves CPU tensors between processes."""
    return c10d.ProcessGroupGloo(store, rank, ranks, timeout)


def world_size() -> int:
    """How many ranks there are in all; 0 before `init_process_group`."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 0


def never_free(thing) -> None:
    """Keep an object for as long as the process lives, beyond the end of Python."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def root_store(store):
    """The store behind the prefixes that groups put before their keys."""
    return store._underlying_non_prefix_store if isinstance(store, c10d.PrefixStore) else store


def fake_store():
    """A store that nobody else has: with it one process stands for all ranks (`simgpu.distributed`)."""
    return c10d.FakeStore()


def is_fake(store) -> bool:
    """Whether a group's store is one that nobody else has."""
    return isinstance(root_store(store), c10d.FakeStore)


class _Unpinned(DispatchMode):
    """Inside, C++ that asks for pinned memory gets other memory, `mark`ed: a Python device has no such to give."""

    mark: Callable[[torch.Tensor], None]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not (kwargs and kwargs.get("pin_memory")):
            return func(*args, **kwargs or {})
        made = func(*args, **kwargs | {"pin_memory": False})
        _Unpinned.mark(made)
        return made


_find_unused: weakref.WeakSet = weakref.WeakSet()


def in_context_parallel() -> bool:
    """Whether PyTorch's `context_parallel` is on, which sends its own operators of attention round a ring."""
    module = sys.modules.get("torch.distributed.tensor.experimental._context_parallel._attention")
    if module is None:
        return False
    return module.DTensor._op_dispatcher._custom_op_handlers is not module.existing_custom_ops


def let_fsdp_move_models(kind: str) -> None:
    """Let `fully_shard` and FSDP1 take a model that is still on the CPU: their `tensor.data = ...` cannot change a
    tensor's class.

    PyTorch swaps such tensors itself where a class says that it can be traced.
    """
    for name in ("_fully_shard._fsdp_init", "_init_utils"):
        init = importlib.import_module(f"torch.distributed.fsdp.{name}")
        if not hasattr(init._move_states_to_device, "swaps"):
            init._move_states_to_device = _swapping(init._move_states_to_device, kind)


def _swapping(move, kind: str):
    @wraps(move)
    def swapping(params, buffers, device, *rest, **options):
        if device is not None and device.type == kind:
            for tensor in (*params, *buffers):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu":
                    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
                    is_one = isinstance(tensor, torch.nn.Parameter)
                    new = torch.nn.Parameter(moved, tensor.requires_grad) if is_one else moved
                    vars(new).update(vars(tensor))  # what a program has noted on it
                    torch.utils.swap_tensors(tensor, new)
        return move(params, buffers, device, *rest, **options)

    swapping.swaps = True
    return swapping


def let_fsdp1_run(kind: str, simulated: Callable[[torch.device], torch.device], offloading: str) -> None:
    """Let FSDP1's `device_id` be one that is `simulated`.

    Raises RuntimeError, with the words `offloading`, where it is to keep its weights on the CPU.
    """
    init = importlib.import_module("torch.distributed.fsdp._init_utils")
    make, chosen = init._init_param_handle_from_params, init._get_device_from_device_id
    if hasattr(make, "refuses"):
        return

    @wraps(chosen)
    def chosen_here(*args, **kwargs):
        device = chosen(*args, **kwargs)
        return None if device is None else simulated(device)

    @wraps(make)
    def checked(state, *args, **kwargs):
        if state.cpu_offload.offload_params and state.compute_device.type == kind:
            raise RuntimeError(offloading)
        return make(state, *args, **kwargs)

    checked.refuses = True
    init._init_param_handle_from_params, init._get_device_from_device_id = checked, chosen_here


class _TypedStorage:
    """A tensor's storage counted in numbers, as far as FSDP1 and DDP in mixed precision free and take memory by it."""

    def __init__(self, tensor: torch.Tensor):
        self._bytes, self._each, self.dtype = tensor.untyped_storage(), tensor.element_size(), tensor.dtype

    def untyped(self):
        return self._bytes

    def element_size(self) -> int:
        return self._each

    def _size(self) -> int:
        return self._bytes.size() // self._each

    def _resize_(self, numbers: int) -> None:
        self._bytes.resize_(numbers * self._each)

    def _data_ptr(self) -> int:
        return self._bytes.data_ptr()

    size, __len__, data_ptr = _size, _size, _data_ptr  # what others ask of `tensor.storage()`


def let_storages_count_numbers(kind: type) -> None:
    """Give tensors of this class the storage by which FSDP1 and DDP in mixed precision free memory."""
    kind._typed_storage = lambda tensor: _TypedStorage(tensor)  # a class would bind no tensor


class _Past:
    """An event that nothing has to wait for."""

    def wait(self, stream=None) -> None:
        """Nothing."""


def let_ddp_cast(kind: str) -> None:
    """Let DDP in mixed precision wait for its casts by events that C++ makes, and that know no simulated streams.

    What runs on such a stream runs on the current one here, so there is nothing to wait for.
    """
    parallel = torch.nn.parallel.DistributedDataParallel
    cast = parallel._root_copy_hook
    if hasattr(cast, "has_no_events"):
        return

    @wraps(cast)
    def cast_and_past(self, *args, **kwargs):
        cast(self, *args, **kwargs)
        if self.device.type == kind:
            for module, events in self._submodule_to_event.items():
                self._submodule_to_event[module] = type(events)([_Past()] * len(events))

    cast_and_past.has_no_events = True
    parallel._root_copy_hook = cast_and_past


def let_checkpoints_copy(is_simulated: Callable[[torch.Tensor], bool]) -> None:
    """Let torch.distributed.checkpoint take simulated tensors to the host as it would take those of a GPU."""
    checkpoint = "torch.distributed.checkpoint"

    def files(module) -> None:
        # Asked for the kind of GPU that there is, PyTorch says cuda in code for CUDA, and simgpu of the tensors.
        loader = module._OverlappingCpuLoader
        make = loader.__init__

        @wraps(make)
        def __init__(self, resolve, *args, **kwargs):
            def on_host(item):
                tensor = resolve(item).detach()
                return tensor.cpu() if is_simulated(tensor) else tensor

            make(self, on_host, *args, **kwargs)

        loader.__init__ = __init__

    def stager(module) -> None:
        # PyTorch's own copies the bytes of a storage into pinned memory: there are neither.
        kind = module.StateDictStager
        make, offload = kind.__init__, kind._offload_tensor

        @wraps(make)
        def __init__(self, pin_memory=False, *args, **kwargs):
            make(self, False, *args, **kwargs)

        @wraps(offload)
        def copied(self, tensor, memo, non_blocking=False):
            if not is_simulated(tensor):
                return offload(self, tensor, memo, non_blocking=non_blocking)
            memo[id(tensor)] = copy = tensor.detach().cpu()
            return copy.share_memory_() if self.share_memory else copy

        kind.__init__, kind._offload_tensor = __init__, copied

    def staging(module) -> None:
        module.ThreadPoolExecutor = _AtOnce

    when_imported(f"{checkpoint}.filesystem", files)
    when_imported(f"{checkpoint}._state_dict_stager", stager)
    when_imported(f"{checkpoint}.staging", staging)


class _AtOnce(Executor):
    """Runs what it is given in the caller's thread: when another thread would copy is chance, and so are all times
    after it."""

    def __init__(self, max_workers: int | None = None):
        """Nothing: it has no workers."""

    def submit(self, call, /, *args, **kwargs) -> Future:
        done = Future()
        done.set_result(call(*args, **kwargs))
        return done


class _Awaited(MetaPathFinder):
    """Calls `change` with the module of a name when it has been imported, and is gone then."""

    def __init__(self, name: str, change: Callable[[object], None]):
        self._name, self._change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module) -> None:
            execute(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name: str, change: Callable[[object], None]) -> None:
    """Change a module of PyTorch's, now or when a program imports it: it may be slow to import, and never needed."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Awaited(name, change))


def let_ddp_find_unused_parameters(mark_pinned: Callable[[torch.Tensor], None]) -> None:
    """Let DDP say in a backward pass which parameters were used, for which its C++ asks for pinned memory."""
    _Unpinned.mark = staticmethod(mark_pinned)
    kind = torch.nn.parallel.DistributedDataParallel
    make = kind.__init__
    if hasattr(make, "notes_who_finds"):
        return

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if self.find_unused_parameters or self.static_graph:
            _find_unused.add(self)

    __init__.notes_who_finds = True
    kind.__init__ = __init__


def let_ddp_read_counts(keeping: Callable[[], AbstractContextManager]) -> None:
    """Do what DDP does to have all ranks agree on parameters and buckets in a context: its C++ reads it back."""
    for owner, name in ((torch.nn.parallel.DistributedDataParallel, "__init__"), (c10d.Reducer, "_rebuild_buckets")):
        call = getattr(owner, name)
        if not hasattr(call, "reads_counts"):
            setattr(owner, name, _within(keeping, call))


def _within(context: Callable[[], AbstractContextManager], call):
    @wraps(call)
    def run(*args, **kwargs):
        with context():
            return call(*args, **kwargs)

    run.reads_counts = True
    return run


def when_backward_ends(call: Callable[[], object]) -> None:
    """Call this when the backward pass that runs on this thread has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


_awaited: dict[int, dict[object, weakref.WeakMethod]] = {}  # by thread: what completes open futures, the oldest first


def await_in_backward(complete: Callable[[], object]) -> None:
    """Call this, a method, when the backward pass of this thread has ended, or a future is waited for before then.

    A future may be one of PyTorch's own, made from another in C++ (`then`, a hook of DDP's reducer): so its class
    asks, whoever waits.
    """
    _let_futures_ask()
    waiting, own = _awaited.setdefault(threading.get_ident(), {}), object()
    waiting[own] = weakref.WeakMethod(complete)

    def at_the_end() -> None:
        waiting.pop(own, None)
        complete()

    when_backward_ends(at_the_end)


def _complete_for(future: torch._C.Future) -> None:
    """Complete what is open, the oldest first, until this future is done. Collectives of a group end in that order."""
    waiting = _awaited.get(threading.get_ident(), {})
    while waiting and not future.done():
        if (complete := waiting.pop(next(iter(waiting)))()) is not None:
            complete()


@cache
def _let_futures_ask() -> None:
    for name in ("wait", "value"):
        ask = getattr(torch._C.Future, name)

        def first_complete(future, *, ask=ask):
            if not future.done():
                _complete_for(future)
            return ask(future)

        setattr(torch._C.Future, name, wraps(ask)(first_complete))


def kernel_of_collectives(func) -> Callable | None:
    """For an operator of torch.distributed, the kernel that takes tensors of any device; None for other operators."""
    key = COLLECTIVES.get(func.namespace)
    return None if key is None else partial(func._op_dk, key)


COLLECTIVES = {
    "c10d": torch._C.DispatchKey.PrivateUse1,
    "_c10d_functional": torch._C.DispatchKey.CompositeExplicitAutograd,
    "_c10d_functional_autograd": torch._C.DispatchKey.CompositeExplicitAutograd,
    "_dtensor": torch._C.DispatchKey.CompositeExplicitAutograd,
}


# The operator by which DTensor, and whoever uses functional collectives, waits for one.
WAIT_FOR_COLLECTIVE = torch.ops._c10d_functional.wait_tensor.default


def kernel_of_fsdp(func) -> Callable | None:
    """For an operator by which FSDP gathers its weights, what it is made of on any device; None for other operators."""
    if func.namespace != "fsdp" or not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "PrivateUse1"):
        return None
    return partial(func._op_dk, torch._C.DispatchKey.PrivateUse1)


def compile_error(text: str) -> RuntimeError:
    """An error that torch.compile hands on as it is: to others it adds a page, or it goes on without compiling."""
    kind = sys.modules["torch._dynamo.exc"].UncapturedHigherOrderOpError
    return type("CompileError", (kind,), {"__module__": __name__, "__str__": lambda _: text})(text)


def being_compiled() -> bool:
    """Whether torch.compile is at work on this thread."""
    guards = sys.modules.get("torch._guards")
    return guards is not None and guards.CompileContext.current_compile_id() is not None


def kernel_from_python(func, key: str) -> Callable | None:
    """The kernel of an operator that was registered from Python for this dispatch key, or None."""
    name = func.name().replace("::", "/").removesuffix(".default")
    return partial(func._op_dk, getattr(torch._C.DispatchKey, key)) if f"{name}/{key}" in torch.library._impls else None


def without_autocast():
    """A context in which autocast changes nothing for simulated GPUs."""
    return torch._C._ExcludeDispatchKeyGuard(_autocast_keys)


_autocast_keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, AUTOCAST_KEY))


def set_lazy_bits(tensor: torch.Tensor, conj: bool, neg: bool) -> None:
    """Say whether a tensor's numbers are to be conjugated, and whether negated, when they are read."""
    if conj:
        torch._C._set_conj(tensor, True)
    if neg:
        torch._C._set_neg(tensor, True)


def heed_lazy_bits() -> None:
    """Let PyTorch resolve them in what a CPU operator calls, as it would outside: it stops while a dispatch runs."""
    for key in ("Conjugate", "Negative"):
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)


def packet_of(func):
    """The operator without its overload: `aten.add` for `aten.add.Tensor`."""
    return func._overloadpacket


def callable_of(func):
    """What calls an operator, without the Python function around it."""
    return func._op


def parts_of(func):
    """What calls an operator's parts, if it is made of others: simgpu's own function or PyTorch's. Else None.

    With autograd PyTorch calls that itself. In `torch.inference_mode()` it hands the operator over as a whole.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if not has_kernel(func.name(), "CompositeImplicitAutograd"):
        return None
    key = "AutogradPrivateUse1" if has_kernel(func.name(), "AutogradPrivateUse1") else "CompositeImplicitAutograd"
    return partial(func._op_dk, getattr(torch._C.DispatchKey, key))


def weak_storage(storage):
    """A reference to a storage that does not keep it: `.expired()` says whether it is gone."""
    return torch.multiprocessing.reductions.StorageWeakRef(storage)


# The node of the graph that the autograd engine is running on this thread, or None.
current_node = torch._C._current_autograd_node
# The number that this thread's next operation in the graph will have.
next_sequence_number = torch._C._autograd._get_sequence_nr


def number_of(node) -> int:
    """The number that an operation had in the forward pass; the engine's own nodes have the largest number."""
    return node._sequence_nr()


def gradients_of(node) -> list:
    """For each gradient that a node of the graph is given: an object with its `device`, `shape` and `dtype`."""
    return [each for each in getattr(node, "_input_metadata", ()) if each is not None]


def note_what_runs(thread) -> None:
    """Let `thread.running` tell, on each thread, which module or optimizer runs: (the innermost, what it runs in).

    What it runs in is told in the same way, and is None at the outermost.
    """

    def noting(run):
        @wraps(run)
        def noted(self, *args, **kwargs):
            __tracebackhide__ = True
            outer = thread.running
            thread.running = self, outer
            try:
                return run(self, *args, **kwargs)
            finally:
                thread.running = outer

        noted.notes_what_runs = True
        return noted

    module, optimizer = torch.nn.Module, torch.optim.Optimizer
    if hasattr(module.__call__, "notes_what_runs"):
        return
    module.__call__ = noting(module.__call__)
    # PyTorch wraps the `step` of a class of optimizers when the first of them is made.
    wrap_step = optimizer.profile_hook_step
    optimizer.profile_hook_step = staticmethod(lambda step: noting(wrap_step(step)))
    for kind in _subclasses(optimizer):
        if hasattr(vars(kind).get("step"), "hooked"):
            kind.step = noting(kind.step)


def _subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_subclasses, kind.__subclasses__()))


def operator_schema(func):
    """The schema of an operator: `.arguments` and `.returns`, each with `.name` and `.alias_info`."""
    return func._schema


def tensor_text(value: torch.Tensor, indent: int) -> str:
    """The numbers of a CPU tensor as PyTorch prints them, without `tensor(` and `)`."""
    return _tensor_str._tensor_str(value, indent)


def join_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """`text` closed with suffixes such as `device='simgpu:0'`, wrapped at the width PyTorch wraps at."""
    return _tensor_str._add_suffixes(text, suffixes, indent, force_newline=False)


def rebuild_on_device():
    """The function that `torch.load(weights_only=True)` trusts to rebuild a tensor from a CPU copy."""
    return torch._utils._rebuild_device_tensor_from_cpu_tensor


def let_libraries_ask(ask: Callable) -> Callable:
    """Let torch.library call `ask` wherever it would register operators; returns the function that registers them."""
    registers, torch._C._dispatch_library = torch._C._dispatch_library, ask
    return registers


def mode_counters() -> list[Callable[[], int]]:
    """Functions that count what runs other code in PyTorch's operators and is on in this thread.

    The modes (TorchFunctionMode, TorchDispatchMode), and hooks for all tensors that are saved for the backward pass.
    """
    from torch.utils import _python_dispatch

    top = torch._C._autograd._top_saved_tensors_default_hooks
    modes = [torch._C._len_torch_function_stack, _python_dispatch._len_torch_dispatch_stack]
    return [*modes, lambda: top(True) is not None]
