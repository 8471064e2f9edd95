# %% wrong: no_reset
# Thinks that a peak belongs to the step, and not to all that has run since the start.

def memory_of_step(step, devices):
    step()
    found = {}
    for device in devices:
        gpu = torch.get_device_module(device)
        found[str(device)] = gpu.memory_allocated(device), gpu.max_memory_allocated(device)
    return found


# %% wrong: current_device
# Asks without a device, and so always the current one.

def memory_of_step(step, devices):
    gpu = torch.get_device_module(devices[0])
    gpu.reset_peak_memory_stats()
    step()
    return {str(device): (gpu.memory_allocated(), gpu.max_memory_allocated()) for device in devices}


# %% wrong: resets_one_device
# Thinks that one reset is for all devices.

def memory_of_step(step, devices):
    gpu = torch.get_device_module(devices[0])
    gpu.reset_peak_memory_stats()
    step()
    return {str(device): (gpu.memory_allocated(device), gpu.max_memory_allocated(device)) for device in devices}


# %% wrong: resets_after_the_step
# Resets when the step is over, so that the peak is what is held.

def memory_of_step(step, devices):
    step()
    found = {}
    for device in devices:
        gpu = torch.get_device_module(device)
        gpu.reset_peak_memory_stats(device)
        found[str(device)] = gpu.memory_allocated(device), gpu.max_memory_allocated(device)
    return found


# %% wrong: a_step_for_each_device
# Runs the step again for each device.

def memory_of_step(step, devices):
    found = {}
    for device in devices:
        gpu = torch.get_device_module(device)
        gpu.reset_peak_memory_stats(device)
        step()
        found[str(device)] = gpu.memory_allocated(device), gpu.max_memory_allocated(device)
    return found


# %% wrong: held_before
# Reads what is held before the step.

def memory_of_step(step, devices):
    held = {}
    for device in devices:
        gpu = torch.get_device_module(device)
        gpu.reset_peak_memory_stats(device)
        held[device] = gpu.memory_allocated(device)
    step()
    return {str(d): (held[d], torch.get_device_module(d).max_memory_allocated(d)) for d in devices}


# %% wrong: peak_first
# Gives the peak first.

def memory_of_step(step, devices):
    gpu = torch.get_device_module(devices[0])
    for device in devices:
        gpu.reset_peak_memory_stats(device)
    step()
    return {str(device): (gpu.max_memory_allocated(device), gpu.memory_allocated(device)) for device in devices}


# %% right: in_loops_over_numbers
# A module for each device, and lists of two.

def memory_of_step(step, devices):
    gpus = [torch.get_device_module(device) for device in devices]
    for gpu, device in zip(gpus, devices):
        gpu.reset_peak_memory_stats(device)
    step()
    peaks = [gpu.max_memory_allocated(device) for gpu, device in zip(gpus, devices)]
    held = [gpu.memory_allocated(device) for gpu, device in zip(gpus, devices)]
    return {str(device): [now, peak] for device, now, peak in zip(devices, held, peaks)}


# %% right: statistics
# Reads both from memory_stats, with each device as the current one.

def memory_of_step(step, devices):
    gpu = torch.get_device_module(devices[0])
    for device in devices:
        with gpu.device(device):
            gpu.reset_peak_memory_stats()
    step()
    stats = {str(device): gpu.memory_stats(device) for device in devices}
    return {
        name: (one["allocated_bytes.all.current"], one["allocated_bytes.all.peak"]) for name, one in stats.items()
    }
