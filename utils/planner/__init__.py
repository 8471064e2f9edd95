"""Which layouts of a training step fit a cluster, and what each costs: before there is a cluster.

    model = llama(layers=32, hidden_size=4096, heads=32, kv_heads=8, intermediate_size=14336, length=8192)
    found = plan(model, Cluster("H100", gpus=64, per_node=8, link="nvlink4", network="400G"), batch=128)
    found.table(10); found.best(3); found.draw()
    found.simulated(3)  # the same layouts run shapes-only, beside the estimates

Blocks are traced once for each shape (`trace`), simgpu's cost model says what their kernels take, NCCL's model what
collectives take where a group lies in the nodes (`cluster`), a replay of FSDP2's order what overlaps (`replay`), and
`utils.schedules.play` what a pipeline waits (`estimate`). Nothing is fitted but what is asked for by name
(`in_training`, the network "EFA"); docs/planner.md holds it against shapes-only simulation and published layouts.
"""

from .cluster import Cluster, HostProfile
from .estimate import Estimate, estimate_layout
from .layouts import Layout, layouts, why_not
from .models import Model, llama, mpt, nanotron, of_module
from .planning import Plan, plan

__all__ = [
    "Cluster",
    "Estimate",
    "HostProfile",
    "Layout",
    "Model",
    "Plan",
    "estimate_layout",
    "layouts",
    "llama",
    "mpt",
    "nanotron",
    "of_module",
    "plan",
    "why_not",
]
