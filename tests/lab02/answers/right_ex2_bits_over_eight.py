"""Takes the bits of the dtype over eight, which gives numbers with a point."""

def bytes_moved(batch_size, sizes, dtype, training):
    size = torch.finfo(dtype).bits / 8
    batch_in, across, _ = (batch_size * width * size for width in sizes)
    back = 0
    if training:
        back += across
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}
