"""Takes the number of bits in the name of the dtype for bytes."""

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    bits = torch.finfo(dtype).bits
    batch_in = batch_size * inputs * bits
    across = batch_size * hidden * bits
    back = batch_size * hidden * bits if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}
