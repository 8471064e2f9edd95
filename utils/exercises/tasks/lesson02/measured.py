"""What the facts about lesson 02's tasks measure with a class that only PyTorch calls. All returns are plain data."""

import torch

from utils.exercises.facts.probes import array, kind_of
from utils.observe.trace import record


def crossed(bridge, device0, device1, x, gradient):
    """`bridge.apply` of x from device0 to device1, the gradient's way back, and the bytes that each pass moved.

    With None for `gradient` no backward pass runs.
    """
    x = torch.from_numpy(x).to(device0).requires_grad_()
    with record(device0, device1) as forward:
        output = bridge.apply(x, torch.device(device1))
    if not isinstance(output, torch.Tensor):
        return {"kind": kind_of(output)}
    arrived = None if gradient is None else torch.from_numpy(gradient).to(output.device, output.dtype)
    with record(device0, device1) as backward:
        if output.requires_grad and arrived is not None:
            output.backward(arrived)
    return {
        "kind": "a tensor",
        "output": [str(output.device), str(output.dtype), array(output.float())],
        "gradient": None if x.grad is None else array(x.grad.float()),
        "forward": [[*way, size] for way, size in forward.moved().items()],
        "backward": [[*way, size] for way, size in backward.moved().items()],
    }
