"""GpuMonitor and NVML: the real nvidia-ml-py, in processes of their own, with a stand-in for NVIDIA's library.

The stand-in (tests/stand_ins/nvml.c) has GPUs that do not exist. What is tested is which GPU is asked and what
becomes of errors, not what a GPU's numbers mean. torch reads NVML itself, so these processes cannot import it.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.notebooks import ROOT
from utils.common.files import python_path

LIBRARY = "libnvidia-ml.so.1"
REST = "1b2c3d4-0000-4000-8000-000000000000"
GPU_A, GPU_B, GPU_C, GPU_D = (f"GPU-{letter}{REST}" for letter in "abcd")
GIB = 2**30

BEFORE = """
import json, sys
sys.modules["torch"] = None  # importing it raises ImportError
from utils.observe.monitor import GpuMonitor
from utils.observe.monitor.nvml import NvmlSource, visible_uuids
def tell(*values):
    print(json.dumps(values))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The folder of a stand-in, compiled once for each set of macros."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the stand-in for NVML needs Linux and a C compiler")
    folders = {}

    def folder(*without):
        if without not in folders:
            folders[without] = tmp_path_factory.mktemp("nvml")
            macros = [f"-DWITHOUT_{name}" for name in without]
            source = ROOT / "tests" / "stand_ins" / "nvml.c"
            target = folders[without] / LIBRARY
            subprocess.run([compiler, "-shared", "-fPIC", *macros, "-o", str(target), str(source)], check=True)
        return folders[without]

    return folder


@pytest.fixture
def run(library):
    """Run code in a process that has the stand-in for a library; returns what it told."""

    def run(code, *, without=(), visible=None, fail="", gpus=4, folder=None):
        environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")}
        environment |= {
            "LD_LIBRARY_PATH": str(folder or library(*without)),
            "PYTHONPATH": python_path(),
            "STAND_IN_FAIL": fail,
            "STAND_IN_GPUS": str(gpus),
        }
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        done = subprocess.run(
            [sys.executable, "-c", BEFORE + code], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


VISIBLE = """
import pynvml
pynvml.nvmlInit()
tell(visible_uuids(pynvml))
"""


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [GPU_A, GPU_B, GPU_C, GPU_D]),
        ("2,0", [GPU_C, GPU_A]),
        (" 1 , 3 ", [GPU_B, GPU_D]),
        (f"{GPU_D},{GPU_B}", [GPU_D, GPU_B]),
        ("GPU-c1b,GPU-a", [GPU_C, GPU_A]),
        ("GPU-c1b,0", [GPU_C, GPU_A]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [GPU_B]),
        ("1,9,2", [GPU_B]),
        ("1,what,2", [GPU_B]),
        ("GPU-b,GPU-,GPU-a", [GPU_B]),  # GPU- fits all of them
        ("GPU-b,GPU-f,GPU-a", [GPU_B]),
        ("1,1", []),
        (f"MIG-a{REST}", [f"MIG-a{REST}"]),
    ],
)
def test_which_gpus_are_visible(run, visible, expected):
    assert run(VISIBLE, visible=visible) == [expected]


def test_a_gpu_that_cannot_be_asked_keeps_its_number(run):
    assert run(VISIBLE, visible="2,3", fail="nvmlDeviceGetUUID:1=15") == [[GPU_C, GPU_D]]
    assert run(VISIBLE, visible="2,1,0", fail="nvmlDeviceGetUUID:1=15") == [[GPU_C]]
    assert run(VISIBLE, fail="nvmlDeviceGetHandleByIndex:1=4") == [[GPU_A, GPU_C, GPU_D]]


MONITOR = """
with GpuMonitor({devices}, hz=20) as m:
    pass
table = m.table()
tell(m.source, sorted({{(s.device, s.utilization, s.used, s.total) for s in m.samples}}, key=str), m.trouble,
     table["mean utilization %"].to_dict(), table["highest memory"].to_dict())
"""


def test_a_monitor_reads_the_gpus_that_cuda_visible_devices_names(run):
    source, samples, trouble, means, memory = run(MONITOR.format(devices=["cuda:0", "cuda:1"]), visible="3,GPU-b")
    assert source == "measured by NVML on 2 x Stand-in"
    # cuda:0 is the fourth GPU, whose samples are 40 and 44; what the buffer held before the start is left out.
    assert samples == [["cuda:0", 42, 2 * GIB, 16 * GIB], ["cuda:1", 22, 2 * GIB, 16 * GIB]]
    assert trouble == []
    assert means == {"cuda:0": 42, "cuda:1": 22}
    assert memory == {"cuda:0": "2.00 GiB", "cuda:1": "2.00 GiB"}


def test_a_monitor_started_twice_leaves_out_what_was_between(run):
    told = run(
        """
m = GpuMonitor(["cuda:0"], hz=20)
for _ in range(3):
    with m:
        pass
tell([s.utilization for s in m.samples][-1], m.trouble)
"""
    )
    assert told == [12, []]


@pytest.mark.parametrize(("visible", "says"), [("1", "CUDA_VISIBLE_DEVICES='1'"), (None, "sees 4 GPU(s)")])
def test_a_device_that_is_not_visible(run, visible, says):
    code = """
try:
    GpuMonitor(["cuda:0", "cuda:4"])
except RuntimeError as error:
    tell(str(error))
"""
    (text,) = run(code, visible=visible)
    assert text.startswith("GpuMonitor: there is no cuda:4: this process sees")
    assert says in text


SOURCE = """
source = NvmlSource({uuids!r})
source.begin()
tell(source.label, [[source.read(device) for device in {uuids!r}] for _ in range(3)], source.trouble.lines)
"""
TWO = {"cuda:0": GPU_C, "cuda:1": GPU_A}
FINE = {"cuda:0": [32, 2 * GIB, 16 * GIB], "cuda:1": [12, 2 * GIB, 16 * GIB]}


def read_three_times(run, uuids=TWO, **how):
    """Label, the one answer of each device that three rounds gave, and the trouble."""
    label, rounds, trouble = run(SOURCE.format(uuids=uuids), **how)
    assert rounds[0] == rounds[1] == rounds[2]
    return label, dict(zip(uuids, rounds[0], strict=True)), trouble


def test_uuids_as_torch_writes_them_and_mig(run):
    uuids = {"cuda:0": f"b{REST}", "cuda:1": f"MIG-a{REST}"}
    _, values, trouble = read_three_times(run, uuids)
    assert values == {"cuda:0": [22, 2 * GIB, 16 * GIB], "cuda:1": [None, 2 * GIB, 16 * GIB]}
    assert trouble == [
        "cuda:1: nvmlDeviceGetSamples: Not Supported",
        "cuda:1: nvmlDeviceGetUtilizationRates: Not Supported",
    ]
    _, values, _ = read_three_times(run, {"cuda:0": f"a{REST}"}, gpus=0)
    assert values == {"cuda:0": [None, 2 * GIB, 16 * GIB]}, "no such GPU: the MIG device of that UUID"


def test_a_uuid_that_nvml_does_not_know(run):
    label, values, trouble = read_three_times(run, {"cuda:0": GPU_A, "cuda:1": "GPU-none"})
    assert label == "measured by NVML on Stand-in, a GPU that NVML does not find"
    assert values == {"cuda:0": FINE["cuda:1"], "cuda:1": [None, None, None]}
    assert trouble == ["cuda:1: nvmlDeviceGetHandleByUUID: Not Found"]


CODES = {
    3: "Not Supported",
    4: "Insufficient Permissions",
    15: "GPU is lost",
    999: "Unknown Error",
    12345: "Code 12345",
}


@pytest.mark.parametrize(("code", "text"), CODES.items())
@pytest.mark.parametrize(
    ("calls", "left"),
    [
        (["nvmlDeviceGetSamples"], [52, 2 * GIB, 16 * GIB]),
        (["nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"], [None, 2 * GIB, 16 * GIB]),
        (["nvmlDeviceGetMemoryInfo_v2"], [32, 3 * GIB, 16 * GIB]),
        (["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"], [32, None, None]),
    ],
    ids=["samples", "utilization", "memory v2", "memory"],
)
def test_a_call_that_fails_on_one_gpu(run, calls, left, code, text):
    _, values, trouble = read_three_times(run, fail=" ".join(f"{call}:2={code}" for call in calls))
    assert values == {"cuda:0": left, "cuda:1": FINE["cuda:1"]}
    assert trouble == [f"cuda:0: {call}: {text}" for call in calls]


def test_a_gpu_that_is_lost_is_not_asked_for_and_the_other_goes_on(run):
    _, values, trouble = read_three_times(run, fail="nvmlDeviceGetHandleByUUID:2=15")
    assert values == {"cuda:0": [None, None, None], "cuda:1": FINE["cuda:1"]}
    assert trouble == ["cuda:0: nvmlDeviceGetHandleByUUID: GPU is lost"]


def test_no_new_samples_is_no_trouble(run):
    _, values, trouble = read_three_times(run, fail="nvmlDeviceGetSamples=6")
    assert values["cuda:0"] == [52, 2 * GIB, 16 * GIB]
    assert trouble == []


def test_the_name_missing(run):
    label, values, trouble = read_three_times(run, fail="nvmlDeviceGetName=999")
    assert label == "measured by NVML on 2 x an unnamed GPU"
    assert values == FINE
    assert trouble == ["cuda:0: nvmlDeviceGetName: Unknown Error", "cuda:1: nvmlDeviceGetName: Unknown Error"]


def test_a_library_without_samples(run):
    _, values, trouble = read_three_times(run, without=("SAMPLES",))
    assert values == {"cuda:0": [52, 2 * GIB, 16 * GIB], "cuda:1": [50, 2 * GIB, 16 * GIB]}
    assert trouble == [f"{device}: nvmlDeviceGetSamples: Function Not Found" for device in TWO]


def test_a_library_without_the_second_version_of_memory(run):
    _, values, trouble = read_three_times(run, without=("MEMORY_V2",))
    assert values == {"cuda:0": [32, 3 * GIB, 16 * GIB], "cuda:1": [12, 3 * GIB, 16 * GIB]}
    assert trouble == [f"{device}: nvmlDeviceGetMemoryInfo_v2: Function Not Found" for device in TWO]


@pytest.mark.parametrize(("code", "calls"), [(3, 1), (13, 1), (4, 4), (15, 4)])
def test_what_will_never_work_is_asked_once(run, code, calls):
    told = run(
        f"""
import pynvml
asked = []
def samples(*args):
    asked.append(args)
    raise pynvml.NVMLError({code})
pynvml.nvmlDeviceGetSamples = samples
source = NvmlSource({{"cuda:0": {GPU_A!r}}})
source.begin()
for _ in range(3):
    source.read("cuda:0")
tell(len(asked))
"""
    )
    assert told == [calls]


def test_a_type_of_value_that_is_not_known(run):
    told = run(
        f"""
import pynvml
real = pynvml.nvmlDeviceGetSamples
pynvml.nvmlDeviceGetSamples = lambda *args: (99, real(*args)[1])
source = NvmlSource({{"cuda:0": {GPU_A!r}}})
source.begin()
tell(source.read("cuda:0")[0], source.trouble.lines)
"""
    )
    assert told == [50, ["cuda:0: nvmlDeviceGetSamples: tuple index out of range"]]


REFUSED = """
try:
    GpuMonitor(["cuda:0", "cuda:1"])
except RuntimeError as error:
    tell(str(error), error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None))
"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (4, "NVML gives this user no permission"),
        (9, "the NVIDIA driver is installed, but not loaded"),
        (18, "library and kernel module differ, as after an update: restart"),
        (15, "NVML does not start: GPU is lost"),
        (999, "NVML does not start: Unknown Error"),
    ],
)
def test_nvml_that_does_not_start(run, code, why):
    text, alone = run(REFUSED, fail=f"nvmlInitWithFlags={code}")
    assert text.startswith("GpuMonitor cannot read cuda:0, cuda:1: ")
    assert why in text
    assert "\n" not in text
    assert text.endswith("Simulated devices (simgpu:0) and recordings (GpuMonitor.replay) work without it.")
    assert alone, "no traceback of pynvml comes before it"


def test_no_library(run, tmp_path):
    # The first file of that name is taken, and an empty one cannot be loaded: as without a driver, on any machine.
    (tmp_path / LIBRARY).touch()
    text, alone = run(REFUSED, folder=tmp_path)
    assert "the NVIDIA driver's library libnvidia-ml.so.1 is not on this machine" in text
    assert "\n" not in text
    assert alone


def test_no_package(run):
    text, alone = run("sys.modules['pynvml'] = None\n" + REFUSED)
    assert "the Python package nvidia-ml-py is not installed" in text
    assert alone


def test_nvml_that_cannot_list_its_gpus(run):
    text, _ = run(REFUSED, fail="nvmlDeviceGetCount=999")
    assert text == "GpuMonitor cannot read cuda:0, cuda:1: NVML lists no GPUs: Unknown Error"


def test_nvml_is_given_back(run):
    told = run(
        """
import pynvml
for _ in range(3):
    with GpuMonitor(["cuda:0"]):
        pass
try:
    pynvml.nvmlDeviceGetCount()
except pynvml.NVMLError as error:
    tell(error.value)
"""
    )
    assert told == [1], "uninitialised: every start of NVML was undone"


def test_importing_asks_for_nothing():
    code = "import sys, utils.observe.monitor; print([m for m in ('torch', 'pynvml', 'pandas') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).strip() == "[]"
