"""Thinks that an output that is not on the CPU has crossed one bridge."""

def bridges(output):
    return int(output.device.type != "cpu" and output.grad_fn is not None)
