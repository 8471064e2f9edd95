# %% wrong: index_taken_for_physical
# Looks up the local rank among all GPUs of the machine, whatever the process sees.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    return gpus[local_rank] if local_rank < len(gpus) else None


# %% wrong: always_by_bus
# Thinks that CUDA numbers GPUs as nvidia-smi does, and never looks at CUDA_DEVICE_ORDER.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    seen = by_bus if visible is None else [by_bus[number] for number in visible]
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: empty_is_unset
# An empty list is false, so the variable that hides all GPUs hides none.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    seen = [gpus[number] for number in visible] if visible else gpus
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: the_other_way_around
# Takes [2, 3, 1, 0] for the new number of each GPU, and not for the GPU of each number.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    numbers = list(range(len(gpus))) if visible is None else visible
    if local_rank not in range(len(numbers)):
        return None
    if sorted(numbers) == list(range(len(numbers))):
        return gpus[numbers.index(local_rank)]
    return gpus[numbers[local_rank]]


# %% wrong: sorted_numbers
# Thinks that the process keeps the machine's order of the GPUs that it sees.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    seen = gpus if visible is None else [gpu for number, gpu in enumerate(gpus) if number in visible]
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: uses_visible_up
# Takes GPUs out of the caller's list with pop, so that the next call sees fewer.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    seen = list(gpus) if visible is None else visible
    if local_rank >= len(seen):
        return None
    chosen = seen.pop(local_rank)
    return chosen if visible is None else gpus[chosen]


# %% wrong: four_gpus_in_a_node
# Knows nodes of four GPUs, and takes none with a higher number.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_bus if order == "PCI_BUS_ID" else by_speed
    seen = gpus if visible is None else [gpus[number] for number in visible if number < 4]
    return seen[local_rank] if local_rank < len(seen) else None


# %% right: a_dictionary_of_numbers
# Numbers the GPUs as CUDA does, then follows the local rank through both lists.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpu_of = dict(enumerate({"PCI_BUS_ID": by_bus}.get(order, by_speed)))
    number_of = gpu_of.keys() if visible is None else visible
    return gpu_of[dict(enumerate(number_of))[local_rank]] if local_rank < len(number_of) else None


# %% right: by_catching_the_error
# Lets Python say that the process sees no such GPU.

def which_gpu(visible, order, local_rank, by_bus, by_speed):
    gpus = by_speed
    if order == "PCI_BUS_ID":
        gpus = by_bus
    try:
        return gpus[local_rank if visible is None else visible[local_rank]]
    except IndexError:
        return None
