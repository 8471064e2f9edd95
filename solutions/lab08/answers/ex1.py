# %% wrong: parts_in_a_plain_list
# Keeps the parts in a plain list, where PyTorch does not see their parameters.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = [part.to(device) for part, device in zip(parts, devices)]
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: part_by_part
# Sends all micro-batches through a part before the next part gets any.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.devices = devices
        for part, device in zip(parts, devices):
            part.to(device)

    def forward(self, x, size):
        pieces = x.to(self.devices[0]).split(size)
        for part, device in zip(self.parts, self.devices):
            pieces = [part(piece.to(device)) for piece in pieces]
        return torch.cat(pieces)


# %% wrong: part_by_part_copied_at_once
# The same, with the copy to the next device right after each part.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList([p.to(d) for p, d in zip(parts, devices)])

    def forward(self, x, size):
        pieces = list(x.to(self.devices[0]).split(size))
        for n, part in enumerate(self.parts):
            following = self.devices[min(n + 1, len(self.parts) - 1)]
            pieces = [part(piece).to(following) for piece in pieces]
        return torch.cat(pieces)


# %% wrong: two_parts_only
# Knows pipelines of two parts.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.device0, self.device1 = devices[0], devices[-1]
        self.part0, self.part1 = parts[0].to(self.device0), parts[-1].to(self.device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: parts_never_moved
# Moves the rows and forgets the parts.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: size_is_the_number
# Takes size for the number of micro-batches.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).chunk(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: waits_after_each_part
# Waits for each device before the next one gets its rows.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
                torch.get_device_module(device).synchronize(device)
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: list_of_outputs
# Returns the outputs of the micro-batches as a list.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
            outputs.append(rows)
        return outputs


# %% wrong: stacked
# Stacks the outputs, which works only as long as all micro-batches have one size.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.stack(outputs).flatten(0, 1)


# %% wrong: through_the_cpu
# Sends what is between two parts through the CPU, which waits for it.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))
        self.devices = devices

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices):
                rows = part(rows.cpu().to(device))
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: rows_from_the_cpu_in_the_loop
# Leaves the batch where it is, and moves the rows of each micro-batch inside the loop, which waits for them.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for rows in x.split(size):
            for part, device in zip(self.parts, self.devices, strict=True):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.cat(outputs)


# %% right: add_module
# Names the parts one by one, and cuts the batch by hand.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.count = len(parts)
        self.devices = list(devices)
        for number in range(self.count):
            self.add_module(f"part{number}", parts[number].to(devices[number]))

    def forward(self, x, size):
        x, outputs = x.to(self.devices[0]), []
        for start in range(0, x.shape[0], size):
            piece = x[start : start + size]
            for number in range(self.count):
                piece = getattr(self, f"part{number}")(piece.to(self.devices[number]))
            outputs.append(piece)
        return torch.cat(outputs, dim=0)


# %% right: copied_ahead
# Copies the output of a part to where it goes next, and has nothing to do for the last.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.devices = devices
        self.following = [*devices[1:], devices[-1]]
        for part, device in zip(self.parts, devices):
            part.to(device)

    def one(self, rows):
        for part, following in zip(self.parts, self.following):
            rows = part(rows).to(following)
        return rows

    def forward(self, x, size):
        return torch.cat([self.one(rows) for rows in x.to(self.devices[0]).split(size)])


# %% right: by_ticks
# Launches by ticks, as the picture of the schedule has it: at each tick every part takes the next micro-batch.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))

    def forward(self, x, size):
        pieces = list(x.to(self.devices[0]).split(size))
        m, p = len(pieces), len(self.parts)
        for tick in range(m + p - 1):
            for n in reversed(range(p)):
                k = tick - n
                if 0 <= k < m:
                    pieces[k] = self.parts[n](pieces[k].to(self.devices[n]))
        return torch.cat(pieces)


# %% right: pinned_rows
# Pins the batch where it comes from the CPU, so that its rows can be copied in the loop and nobody waits.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices, strict=True))

    def forward(self, x, size):
        if x.device.type == "cpu":
            x = x.pin_memory()
        outputs = []
        for rows in x.split(size):
            for part, device in zip(self.parts, self.devices, strict=True):
                rows = part(rows.to(device, non_blocking=True))
            outputs.append(rows)
        return torch.cat(outputs)


# %% right: all_rows_before_the_loop
# Copies the rows of all micro-batches before the first part begins.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.chain = nn.ModuleList(parts)
        self.where = list(devices)
        for part, device in zip(self.chain, self.where):
            part.to(device)

    def forward(self, x, size):
        batches = [rows.to(self.where[0]) for rows in x.split(size)]
        results = []
        for rows in batches:
            for part, device in zip(self.chain, self.where):
                rows = part(rows.to(device))
            results += [rows]
        return torch.vstack(results)


# %% wrong: output_on_the_notebooks_device1
# Puts the output on the device1 of the notebook, though the last part may be on another.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices, strict=True):
                rows = part(rows.to(device))
            outputs.append(rows)
        return torch.cat(outputs).to(device1)


# %% wrong: moved_from_the_cpu_only
# Moves a batch that comes from the CPU, and takes any other to be on the first device.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        if x.device.type == "cpu":
            x = x.to(self.devices[0])
        for rows in x.split(size):
            for number, part in enumerate(self.parts):
                if number > 0:
                    rows = rows.to(self.devices[number])
                rows = part(rows)
            outputs.append(rows)
        return torch.cat(outputs)


# %% wrong: gathered_on_the_notebooks_device1
# Gathers the outputs on the device1 of the notebook. Where that is the first device, each copy to it holds up the
# next micro-batch.

class Pipelined(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices, strict=True))

    def forward(self, x, size):
        outputs = []
        for rows in x.to(self.devices[0]).split(size):
            for part, device in zip(self.parts, self.devices, strict=True):
                rows = part(rows.to(device))
            outputs.append(rows.to(device1))
        return torch.cat(outputs).to(self.devices[-1])
