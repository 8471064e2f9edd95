# %% wrong: what_is_left
# Takes what the step leaves behind for its peak.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    before = gpu.memory_allocated(device)
    step()
    return gpu.memory_allocated(device) - before


# %% wrong: no_reset
# Reads the peak since the process started.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    before = gpu.memory_allocated(device)
    step()
    return gpu.max_memory_allocated(device) - before


# %% wrong: weights_counted
# Counts what was there before the step.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    gpu.reset_peak_memory_stats(device)
    step()
    return gpu.max_memory_allocated(device)


# %% wrong: reset_after_the_step
# Resets after the step, so the peak is what is there then.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    before = gpu.memory_allocated(device)
    step()
    gpu.reset_peak_memory_stats(device)
    return gpu.max_memory_allocated(device) - before


# %% wrong: step_not_called
# Never runs the step.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    gpu.reset_peak_memory_stats(device)
    return gpu.max_memory_allocated(device) - gpu.memory_allocated(device)


# %% right: memory_stats
# Asks memory_stats, which has both numbers.

def peak_memory(step, device):
    gpu = torch.get_device_module(device)
    gpu.reset_peak_memory_stats(device)
    start = gpu.memory_stats(device)["allocated_bytes.all.current"]
    step()
    return gpu.memory_stats(device)["allocated_bytes.all.peak"] - start
