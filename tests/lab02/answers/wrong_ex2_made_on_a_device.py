"""Makes the tensors on a device and asks them."""


def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, _ = sizes
    batch_in = torch.empty(batch_size, inputs, dtype=dtype, device=device0).nbytes
    across = torch.empty(batch_size, hidden, dtype=dtype, device=device1).nbytes
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}
