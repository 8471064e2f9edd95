# %% wrong: always_four_bytes
# Thinks that every number has four bytes.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    batch_in = batch_size * inputs * 4
    across = batch_size * hidden * 4
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: back_always
# Forgets that nothing comes back where nothing is trained.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = across
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: bits
# Takes the number of bits in the name of the dtype for bytes.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    bits = torch.finfo(dtype).bits
    batch_in = batch_size * inputs * bits
    across = batch_size * hidden * bits
    back = batch_size * hidden * bits if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: elements
# Counts the numbers, not their bytes.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    batch_in = batch_size * inputs
    across = batch_size * hidden
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: gradient_always_float32
# Thinks that gradients are always float32.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = batch_size * hidden * 4 if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: gradients_of_weights_back
# Thinks that what comes back are the gradients of the first layer's parameters.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = (inputs * hidden + hidden) * size if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: kilobytes
# Gives kilobytes where bytes are asked for.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size / 1000
    across = batch_size * hidden * size / 1000
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: made_on_a_device
# Makes the tensors on a device and asks them.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, _ = sizes
    batch_in = torch.empty(batch_size, inputs, dtype=dtype, device=device0).nbytes
    across = torch.empty(batch_size, hidden, dtype=dtype, device=device1).nbytes
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: nothing_back
# Thinks that gradients stay where they are, so nothing comes back.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: one_sample
# Forgets the batch: counts the bytes of one sample.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = inputs * size
    across = hidden * size
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: outputs_cross
# Thinks that what crosses is the output, not the hidden result.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = batch_size * outputs * size
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% wrong: weights_travel
# Thinks that the weights of the second layer travel with the data.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = dtype.itemsize
    batch_in = batch_size * inputs * size
    across = (batch_size * hidden + hidden * outputs + outputs) * size
    back = across if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% right: bits_over_eight
# Takes the bits of the dtype over eight, which gives numbers with a point.

def bytes_moved(batch_size, sizes, dtype, training):
    size = torch.finfo(dtype).bits / 8
    batch_in, across, _ = (batch_size * width * size for width in sizes)
    back = 0
    if training:
        back += across
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% right: element_size
# Asks an empty tensor for its element size.

def bytes_moved(batch_size, sizes, dtype, training):
    inputs, hidden, outputs = sizes

    size = torch.empty(0, dtype=dtype).element_size()
    batch_in = batch_size * inputs * size
    across = batch_size * hidden * size
    back = batch_size * hidden * size if training else 0
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}


# %% right: tensors_on_meta
# Builds the tensors without memory, on the meta device, and asks them.

def bytes_moved(batch_size, sizes, dtype, training):
    def size_of(*shape):
        return torch.empty(shape, dtype=dtype, device="meta").nbytes

    inputs, hidden, outputs = sizes
    batch_in = size_of(batch_size, inputs)
    across = size_of(batch_size, hidden)
    back = size_of(batch_size, hidden) * training
    print(f"{batch_in + across + back} bytes in all")
    return {"cpu to device0": batch_in, "device0 to device1": across, "device1 to device0": back}
