# %% wrong: parts_in_a_plain_list
# Keeps the stages in a plain list, where PyTorch does not see their parameters.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = [stage.to(device) for stage, device in zip(stages, devices)]
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: part_by_part
# Sends all micro-batches through a stage before the next stage gets any.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.devices = devices
        for stage, device in zip(stages, devices):
            stage.to(device)

    def forward(self, x, size):
        pieces = x.to(self.devices[0]).split(size)
        for stage, device in zip(self.stages, self.devices):
            pieces = [stage(piece.to(device)) for piece in pieces]
        return torch.cat(pieces)


# %% wrong: part_by_part_copied_at_once
# The same, with the copy to the next device right after each stage.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList([p.to(d) for p, d in zip(stages, devices)])

    def forward(self, x, size):
        pieces = list(x.to(self.devices[0]).split(size))
        for n, stage in enumerate(self.stages):
            following = self.devices[min(n + 1, len(self.stages) - 1)]
            pieces = [stage(piece).to(following) for piece in pieces]
        return torch.cat(pieces)


# %% wrong: two_parts_only
# Knows pipelines of two stages.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.device0, self.device1 = devices[0], devices[-1]
        self.part0, self.part1 = stages[0].to(self.device0), stages[-1].to(self.device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: parts_never_moved
# Moves the samples and forgets the stages.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: size_is_the_number
# Takes size for the number of micro-batches.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).chunk(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: waits_after_each_part
# Waits for each device before the next one gets its samples.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
                torch.get_device_module(device).synchronize(device)
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: list_of_outputs
# Returns the outputs of the micro-batches as a list.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return outputs


# %% wrong: stacked
# Stacks the outputs, which works only as long as all micro-batches have one size.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.stack(outputs).flatten(0, 1)


# %% wrong: through_the_cpu
# Sends what is between two stages through the CPU, which waits for it.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices):
                samples = stage(samples.cpu().to(device))
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: rows_from_the_cpu_in_the_loop
# Leaves the batch where it is, and moves the samples of each micro-batch inside the loop, which waits for them.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for samples in x.split(size):
            for stage, device in zip(self.stages, self.devices, strict=True):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.cat(outputs)


# %% right: add_module
# Names the stages one by one, and cuts the batch by hand.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.count = len(stages)
        self.devices = list(devices)
        for number in range(self.count):
            self.add_module(f"stage{number}", stages[number].to(devices[number]))

    def forward(self, x, size):
        x, outputs = x.to(self.devices[0]), []
        for start in range(0, x.shape[0], size):
            piece = x[start : start + size]
            for number in range(self.count):
                piece = getattr(self, f"stage{number}")(piece.to(self.devices[number]))
            outputs.append(piece)
        return torch.cat(outputs, dim=0)


# %% right: copied_ahead
# Copies the output of a stage to where it goes next, and has nothing to do for the last.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.devices = devices
        self.following = [*devices[1:], devices[-1]]
        for stage, device in zip(self.stages, devices):
            stage.to(device)

    def one(self, samples):
        for stage, following in zip(self.stages, self.following):
            samples = stage(samples).to(following)
        return samples

    def forward(self, x, size):
        return torch.cat([self.one(samples) for samples in x.to(self.devices[0]).split(size)])


# %% right: by_ticks
# Launches by ticks, as the picture of the schedule has it: at each tick every stage takes the next micro-batch.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))

    def forward(self, x, size):
        pieces = list(x.to(self.devices[0]).split(size))
        m, p = len(pieces), len(self.stages)
        for tick in range(m + p - 1):
            for n in reversed(range(p)):
                k = tick - n
                if 0 <= k < m:
                    pieces[k] = self.stages[n](pieces[k].to(self.devices[n]))
        return torch.cat(pieces)


# %% right: pinned_rows
# Pins the batch where it comes from the CPU, so that its samples can be copied in the loop without a wait.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices, strict=True))

    def forward(self, x, size):
        if x.device.type == "cpu":
            x = x.pin_memory()
        outputs = []
        for samples in x.split(size):
            for stage, device in zip(self.stages, self.devices, strict=True):
                samples = stage(samples.to(device, non_blocking=True))
            outputs.append(samples)
        return torch.cat(outputs)


# %% right: all_rows_before_the_loop
# Copies the samples of all micro-batches before the first stage begins.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.chain = nn.ModuleList(stages)
        self.where = list(devices)
        for stage, device in zip(self.chain, self.where):
            stage.to(device)

    def forward(self, x, size):
        batches = [samples.to(self.where[0]) for samples in x.split(size)]
        results = []
        for samples in batches:
            for stage, device in zip(self.chain, self.where):
                samples = stage(samples.to(device))
            results += [samples]
        return torch.vstack(results)


# %% wrong: output_on_the_notebooks_device1
# Puts the output on the device1 of the notebook, though the last stage may be on another.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices, strict=True):
                samples = stage(samples.to(device))
            outputs.append(samples)
        return torch.cat(outputs).to(device1)


# %% wrong: moved_from_the_cpu_only
# Moves a batch that comes from the CPU, and takes any other to be on the first device.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        if x.device.type == "cpu":
            x = x.to(self.devices[0])
        for samples in x.split(size):
            for number, stage in enumerate(self.stages):
                if number > 0:
                    samples = samples.to(self.devices[number])
                samples = stage(samples)
            outputs.append(samples)
        return torch.cat(outputs)


# %% wrong: outputs_on_the_notebooks_device1
# Collects the outputs on the device1 of the notebook. Where that is the first device, each copy to it holds up the
# next micro-batch.

class Pipelined(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for samples in x.to(self.devices[0]).split(size):
            for stage, device in zip(self.stages, self.devices, strict=True):
                samples = stage(samples.to(device))
            outputs.append(samples.to(device1))
        return torch.cat(outputs).to(self.devices[-1])
