"""Asks an empty tensor for its element size."""

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = torch.empty(0, dtype=dtype).element_size()
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = batch_size * hidden * size if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}
