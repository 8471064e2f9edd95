"""Hardware as data: GPUs and the links between them, each number with its source.

A profile in a few lines, for a GPU that is not here:

    from simgpu.profiles import GpuProfile, add_gpu
    add_gpu(GpuProfile("A10", 31.2e12, 600e9, 24e9, 72, "NVIDIA A10 datasheet", {torch.bfloat16: 125e12}))
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

MICROSECOND = 1e-6

# Shares of a datasheet's peak. Those of T4, V100, P100 and A100 are fitted (benchmarks/data, rows marked so), the
# others carried over to GPUs that are built alike.
#
# Float32 without tensor cores. Volta, Turing and the A100 issue integer instructions (addresses) beside those of
# float32. Pascal, and Ampere's and Ada's other chips and Hopper, whose float32 units are doubled, share the slots:
# cuBLAS reaches 0.82 on a 4070 Ti, 0.97 on an A100 (Yinghan-Li/YHs_Sample, issue 4).
OWN_INTEGERS, SHARED_INTEGERS = 0.93, 0.8
# Boards of 70 to 75 watts cannot hold their clock: a T4's base clock is 0.37 of the boost clock its peak is for.
LOW_POWER = 0.52
# Tensor cores: V100 and A100, and boards of 70 to 75 watts.
TENSOR_CORES, LOW_POWER_TENSOR_CORES = 0.8, 0.62
# What is left of that on Hopper step after step, when the board is at its limit of power. Fitted on half A of MPT's
# and nanotron's steps on H100 (tools/benchmarks/at_scale.py), of 0.8, 0.85 and 0.9; products of an H200
# without a pause reach 670 of 794 TFLOP/s, 0.84.
SUSTAINED = 0.8
# Attention in one kernel, forward and backward, at shares of a product's speed. FlashAttention-2 reaches up to 230 of
# an A100's 312 TFLOPs forward where a product reaches 250, and 70% of that backward (Dao 2023, section 4).
ATTENTION = (0.8, 0.6)
# The same kernel on Hopper: 35% of the peak forward (Shah and others, FlashAttention-3, arXiv 2407.08608, abstract),
# and backward as much less as on an A100. (An H200 measured 0.34 and 0.28; nothing was fitted to it.) PyTorch's choice
# on Hopper is cuDNN's kernel, which is as fast as `ATTENTION` says.
FLASH_ATTENTION_2_ON_HOPPER = (0.35 / TENSOR_CORES, 0.35 / TENSOR_CORES * ATTENTION[1] / ATTENTION[0])
# Streams through memory: stacked memory on V100 and later, and GDDR. (The P100's first HBM2 is like the latter.)
HBM, GDDR = 0.9, 0.76


@dataclass(frozen=True)
class GpuProfile:
    """What the cost of a kernel depends on.

    Rates are datasheet peaks: `flops` in floating-point operations a second for float32 without tensor cores,
    `bandwidth` of memory in bytes a second, `memory` in bytes. `fast` has the peak of other dtypes and `tf32` that of
    rounded float32, where there are tensor cores for them (dense, with float32 sums, as PyTorch uses them).

    Shares of a peak that large kernels reach: `efficiency` without tensor cores, `tensor_efficiency` with them,
    `streams` of the memory's bandwidth. `launch` is what starting an operator costs the host, `shortest` what any
    kernel takes before it does anything, in seconds.
    """

    name: str
    flops: float
    bandwidth: float
    memory: float
    multiprocessors: int
    source: str
    fast: dict[torch.dtype, float] = field(default_factory=dict, hash=False)
    efficiency: float = OWN_INTEGERS
    launch: float = 40 * MICROSECOND
    shortest: float = 2 * MICROSECOND
    tf32: float | None = None
    tensor_efficiency: float = TENSOR_CORES
    streams: float = HBM
    attention: tuple[float, float] = ATTENTION  # forward and backward, shares of a product's speed
    sustained: float = 1.0  # the share of tensor cores' speed that is left in training, at the board's limit of power
    watts: float = 0.0  # that limit
    capability: tuple[int, int] = (0, 0)  # compute capability, by NVIDIA's table "CUDA GPU Compute Capability"

    def __post_init__(self):
        shares = ("efficiency", "tensor_efficiency", "streams")
        _require_positive(self, "flops", "bandwidth", "memory", "multiprocessors", "shortest", *shares)

    def in_training(self, watts: float = 0.0) -> GpuProfile:
        """The profile for whole steps one after the other: at the board's limit of power, or one of fewer `watts`.

        Dynamic power goes with the clock and the square of a voltage that goes with the clock, so the clock of tensor
        cores with the cube root of power (Rabaey, Digital Integrated Circuits). Attention stays below the limit at 700
        W. ValueError where fewer watts are asked for, and the board's are not known.
        """
        if watts and not self.watts:
            raise ValueError(f"{self.name}: its own limit of power is not known. Give the profile its `watts`")
        clock = min(1.0, watts / self.watts) ** (1 / 3) if watts else 1.0
        forward, backward = (share / self.sustained for share in self.attention)
        speed = self.tensor_efficiency * self.sustained * clock
        return replace(
            self, tensor_efficiency=speed, attention=(forward, backward), sustained=1.0, watts=watts or self.watts
        )

    def peak(self, dtype: torch.dtype, tf32: bool = False) -> float:
        """Floating-point operations a second for a dtype; `tf32` where float32 may be rounded."""
        if tf32 and dtype is torch.float32 and self.tf32:
            return self.tf32
        return self.fast.get(dtype, self.flops)

    def rate(self, dtype: torch.dtype, tf32: bool = False) -> tuple[float, bool]:
        """Floating-point operations a second that large products reach, and whether on tensor cores."""
        peak = self.peak(dtype, tf32)
        on_tensor_cores = peak != self.flops
        return peak * (self.tensor_efficiency if on_tensor_cores else self.efficiency), on_tensor_cores


LINK_KINDS = ("nvlink", "pcie", "network")


@dataclass(frozen=True)
class LinkProfile:
    """A link between two GPUs, or between a GPU and the host.

    `bandwidth` in bytes a second, one direction, as copies of some megabytes reach it; `latency` in seconds is what
    the engine takes for any copy (what the host pays to start one is the GPU's `launch`). `pageable` is what a copy
    reaches where the host's memory is not pinned: the driver moves it through a pinned buffer of its own, as fast
    as one thread of the host copies, whatever the link could do. `collective` is what kernels of NCCL reach, which
    move data by themselves, and `kind`, of "nvlink", "pcie" and "network", decides what a step of theirs takes.
    """

    name: str
    bandwidth: float
    source: str
    latency: float = 2 * MICROSECOND
    pageable: float = 7e9
    kind: str = "pcie"
    collective: float = 0.0  # 0: as copies
    step: float = 0.0  # of a network: seconds that each step of a ring takes more than NCCL's table says
    late: float = 0.0  # of a network between a pipeline's stages: seconds a launch more for each GPU of a tensor group

    def __post_init__(self):
        _require_positive(self, "bandwidth", "pageable")
        if self.kind not in LINK_KINDS:
            raise ValueError(f"LinkProfile {self.name}: kind={self.kind!r} is none of {', '.join(LINK_KINDS)}")
        if not self.collective:
            object.__setattr__(self, "collective", self.bandwidth)

    def seconds(self, size: int, *, pageable: bool = False) -> float:
        """What a copy of `size` bytes takes."""
        return self.latency + size / (min(self.bandwidth, self.pageable) if pageable else self.bandwidth)


def _require_positive(profile, *names: str) -> None:
    for name in names:
        value = getattr(profile, name)
        if not value > 0:
            raise ValueError(f"{type(profile).__name__} {profile.name}: {name}={value!r} must be above 0")


_Profile = TypeVar("_Profile", GpuProfile, LinkProfile)
HALF = (torch.float16, torch.bfloat16)


def _tensor_cores(flops: float, dtypes=HALF) -> dict[torch.dtype, float]:
    return dict.fromkeys(dtypes, flops)


# What only other profiles of the same chip, and no measurement, speak for.
DATASHEET_ONLY = "compared with no measurement"
_PASCAL: dict[str, Any] = {"efficiency": SHARED_INTEGERS, "streams": GDDR, "capability": (6, 1)}
_GP100: dict[str, Any] = {**_PASCAL, "capability": (6, 0)}
_GDDR_75_WATTS: dict[str, Any] = {"efficiency": LOW_POWER, "tensor_efficiency": LOW_POWER_TENSOR_CORES, "streams": GDDR}
_AMPERE: dict[str, Any] = {"fast": _tensor_cores(312e12), "tf32": 156e12, "capability": (8, 0)}
_HOPPER: dict[str, Any] = {
    "fast": _tensor_cores(989e12),
    "tf32": 494e12,
    "efficiency": SHARED_INTEGERS,
    "sustained": SUSTAINED,
    "watts": 700.0,  # NVIDIA H100 and H200 datasheets, SXM
    "capability": (9, 0),
}

# `launch` is one assumption for all: the GPU is not what it depends on. Between launches of operators the host takes
# a median of 32 to 58 microseconds in the traces of benchmarks/data, with a profiler at work that adds to it;
# forward and backward thread do not differ. cudaLaunchKernel itself is 6 to 11 of it.
GPUS = {
    gpu.name: gpu
    for gpu in (
        GpuProfile(
            "T4",
            8.1e12,
            320e9,
            16e9,
            40,
            "NVIDIA T4 datasheet, 2019",
            _tensor_cores(65e12, HALF[:1]),
            **_GDDR_75_WATTS,
            capability=(7, 5),
        ),
        GpuProfile("P40", 12e12, 346e9, 24e9, 30, "NVIDIA Tesla P40 datasheet, 2016", **_PASCAL),
        # float16 through PyTorch sums in float32, on Pascal no faster than float32.
        GpuProfile("GP100", 10.3e12, 717e9, 16e9, 56, "NVIDIA Quadro GP100 datasheet, 2016", **_GP100),
        GpuProfile(
            "V100",
            15.7e12,
            900e9,
            16e9,
            80,
            "NVIDIA V100 datasheet (SXM2), 2018",
            _tensor_cores(125e12, HALF[:1]),
            capability=(7, 0),
        ),
        GpuProfile("A100", 19.5e12, 1555e9, 40e9, 108, "NVIDIA A100 datasheet (SXM 40 GB)", **_AMPERE),
        GpuProfile("H100", 66.9e12, 3350e9, 80e9, 132, "NVIDIA H100 datasheet (SXM)", **_HOPPER),
        GpuProfile("H200", 66.9e12, 4800e9, 141e9, 132, "NVIDIA H200 datasheet (SXM)", **_HOPPER),
        GpuProfile("P100", 9.3e12, 732e9, 16e9, 56, "NVIDIA Tesla P100 datasheet (PCIe 16 GB), 2016", **_GP100),
        GpuProfile(
            "P4",
            5.5e12,
            192e9,
            8e9,
            20,
            "NVIDIA Tesla P4 datasheet, 2016",
            efficiency=LOW_POWER,
            streams=GDDR,
            capability=(6, 1),
        ),
        GpuProfile(
            "V100-PCIe",
            14e12,
            900e9,
            32e9,
            80,
            "NVIDIA V100 datasheet (PCIe), 2018",
            _tensor_cores(112e12, HALF[:1]),
            capability=(7, 0),
        ),
        GpuProfile(
            "2080Ti",
            13.4e12,
            616e9,
            11e9,
            68,
            "NVIDIA Turing whitepaper (GeForce RTX 2080 Ti, reference clock)",
            _tensor_cores(53.8e12, HALF[:1]),
            streams=GDDR,
            capability=(7, 5),
        ),
        GpuProfile("A100-40GB-PCIe", 19.5e12, 1555e9, 40e9, 108, "NVIDIA A100 datasheet (PCIe 40 GB)", **_AMPERE),
        GpuProfile("A100-80GB-PCIe", 19.5e12, 1935e9, 80e9, 108, "NVIDIA A100 datasheet (PCIe 80 GB)", **_AMPERE),
        GpuProfile("A100-80GB-SXM", 19.5e12, 2039e9, 80e9, 108, "NVIDIA A100 datasheet (SXM 80 GB)", **_AMPERE),
        GpuProfile(
            "A40",
            37.4e12,
            696e9,
            48e9,
            84,
            "NVIDIA A40 datasheet",
            _tensor_cores(149.7e12),
            tf32=74.8e12,
            efficiency=0.62,  # of the same chip: cuBLAS reaches 23.2 of an A6000's 38.7 TFLOPs, 20 of an A10's 31.2
            streams=GDDR,
            capability=(8, 6),
        ),
        GpuProfile(
            "L4",
            30.3e12,
            300e9,
            24e9,
            58,
            "NVIDIA L4 datasheet",
            _tensor_cores(121e12),
            tf32=60e12,
            **_GDDR_75_WATTS | {"efficiency": LOW_POWER * SHARED_INTEGERS, "capability": (8, 9)},
        ),
        GpuProfile(
            "B200",
            75e12,
            8000e9,
            180e9,
            148,
            f"NVIDIA HGX B200 datasheet; {DATASHEET_ONLY}",
            _tensor_cores(2250e12),
            tf32=1125e12,
            efficiency=SHARED_INTEGERS,
            capability=(10, 0),
        ),
        # Slow enough that a two-core laptop computes a kernel faster than this GPU claims to, so that the paced
        # clock can hold wall time.
        GpuProfile(
            "Instructional",
            10e9,
            4e9,
            1e9,
            8,
            "not a product: chosen so that a laptop keeps up",
            launch=20 * MICROSECOND,
            shortest=3 * MICROSECOND,
            efficiency=0.7,
            streams=1.0,
        ),
    )
}


# The latency of all but the instructional one: NVIDIA/cuda-samples issue 230, peer to peer, 1.8 to 2.3 us; copies of a
# few bytes in traces take 1 to 3. Without peer access (different sockets, consumer boards) the same issue has 11 to 20.
# `pageable`: two traces of one V100 reach 6.7 GB/s (loader workers beside it) and 9.9 (none); 5 to 6 are reported in
# rapidsai/dask-cuda pull request 98. Between those, and one number for all, for it is the host's.
def _nvlink(name: str, bandwidth: float, collective: float, source: str) -> LinkProfile:
    """`collective` as NCCL counts it (src/graph/topo.h): per link 18, 20, 20, 20.6 and 40.1 GB/s, 235 for an A100."""
    return LinkProfile(name, bandwidth, source, kind="nvlink", collective=collective)


LINKS = {
    link.name: link
    for link in (
        LinkProfile(
            "pcie3", 11e9, "PCI Express 3.0 x16: 15.75 GB/s raw, about 11 GB/s measured by p2pBandwidthLatencyTest"
        ),
        LinkProfile("pcie4", 22e9, "PCI Express 4.0 x16: 31.5 GB/s raw, 20 to 22.4 measured (NVIDIA/nccl issue 814)"),
        LinkProfile("pcie5", 55e9, "PCI Express 5.0 x16: 63 GB/s raw, 54 to 56 measured (lukealonso/p2pmark)"),
        _nvlink(
            "nvlink1", 36e9, 2 * 18e9, "NVLink 1, two links: 2 x 20 GB/s each way, 36.4 measured (Dell C4130 and P100)"
        ),
        _nvlink(
            "nvlink2",
            48e9,
            2 * 20e9,
            "NVLink 2, two links (a pair in a DGX-1V): 2 x 25 GB/s each way, 47.9 measured (Dell C4130)",
        ),
        _nvlink("nvlink3", 270e9, 235e9, "NVLink 3, 12 links (A100): 300 GB/s each way, 90% of it"),
        _nvlink(
            "nvlink4",
            376e9,
            18 * 20.6e9,
            "NVLink 4, 18 links (H100): 450 GB/s each way, 371 to 377 measured (NVIDIA/nccl issue 1264)",
        ),
        _nvlink(
            "nvlink5",
            750e9,
            18 * 40.1e9,
            "NVLink 5, 18 links (B200 datasheet): 900 GB/s each way, NVLink 4's share; compared with nothing",
        ),
        LinkProfile("instructional", 0.2e9, "not a product: for the instructional GPU", latency=100 * MICROSECOND),
    )
}


def _network(gigabits: int) -> LinkProfile:
    source = (
        f"one adapter of {gigabits} Gb/s for each GPU: {gigabits / 8:g} GB/s raw, 96% of it (NCCL counts 12 of 12.5)"
    )
    return LinkProfile(f"{gigabits}G", 0.96 * gigabits / 8 * 1e9, source, latency=5 * MICROSECOND, kind="network")


# What links the GPUs of different nodes: InfiniBand, or Ethernet with RDMA.
NETWORKS = {network.name: network for network in map(_network, (25, 100, 200, 400))}


# AWS's p5: 32 adapters, 3,200 Gb/s a node. The step is fitted on all-gathers of 256 MB on 2, 8 and 32 nodes
# (benchmarks/data/training/collectives.csv); reduce-scatters and all-reduces are compared. What launches take more
# where a pipeline's stages are in different nodes is fitted on half A of nanotron's pipelines, of 26, 30, 34 and 38: a
# layer took 9, 14, 22 and 49 ms at least with 2, 4, 8 and 16 GPUs to a tensor group, whatever its width, the rows and
# the stages. Why is not known: perhaps threads that poll the network take the CPU from those that launch, and each
# pause is waited for by the whole group.
NETWORKS["EFA"] = replace(
    NETWORKS["400G"],
    name="EFA",
    source="AWS p5: 3,200 Gb/s a node; steps of rings as measured by nanotron's authors",
    step=40 * MICROSECOND,
    late=34 * MICROSECOND,
)


def add_gpu(profile: GpuProfile) -> None:
    """Make a profile known under its name, for `simgpu.enable(gpu=...)`."""
    GPUS[profile.name] = profile


def add_link(profile: LinkProfile) -> None:
    """Make a link known under its name, for `simgpu.enable(link=...)`."""
    LINKS[profile.name] = profile


def find(kind: str, known: dict[str, _Profile], wanted: Any) -> _Profile:
    """The profile that `wanted` names or is. Raises ValueError naming those there are."""
    if type(wanted) in (GpuProfile, LinkProfile):
        return wanted
    by_name = {name.lower(): profile for name, profile in known.items()}
    if not isinstance(wanted, str) or wanted.lower() not in by_name:
        raise ValueError(f"simgpu.enable({kind}={wanted!r}): there is no such profile. There are: {', '.join(known)}")
    return by_name[wanted.lower()]
