# %% wrong: parts_in_a_plain_list
# Thinks that a plain Python list of parts is as good as a ModuleList, so the model has no parameters.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = [part.to(device) for part, device in zip(parts, devices)]

    def forward(self, x):
        for part, device in zip(self.parts, self.devices):
            x = part(x.to(device))
        return x


# %% wrong: copy_not_kept
# Thinks that .to moves a tensor in place, as it moves a layer.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(parts)
        for i in range(3):
            self.parts[i].to(devices[i])

    def forward(self, x):
        for i in range(3):
            x.to(self.devices[i])
            x = self.parts[i](x)
        return x


# %% wrong: devices_of_the_notebook
# Uses the two devices of the notebook instead of those that it is given.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.part0 = parts[0].to("simgpu:0")
        self.part1 = parts[1].to("simgpu:1")
        self.part2 = parts[2].to("simgpu:0")

    def forward(self, x):
        x = self.part0(x.to("simgpu:0"))
        x = self.part1(x.to("simgpu:1"))
        return self.part2(x.to("simgpu:0"))


# %% wrong: last_move_forgotten
# Moves the batch to the first and to the second part only, because SimpleMPModel has two moves.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.a, self.b, self.c = parts[0].to(devices[0]), parts[1].to(devices[1]), parts[2].to(devices[2])

    def forward(self, x):
        x = self.a(x.to(self.devices[0]))
        x = self.b(x.to(self.devices[1]))
        return self.c(x)


# %% wrong: detached_at_the_border
# Thinks that a tensor has to be detached before it changes its device.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))

    def forward(self, x):
        for part, device in zip(self.parts, self.devices):
            x = part(x.detach().to(device))
        return x


# %% wrong: output_back_on_the_cpu
# Thinks that an output has to come back to where the batch came from.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(parts)
        for part, device in zip(parts, devices):
            part.to(device)

    def forward(self, x):
        for part, device in zip(self.parts, self.devices):
            x = part(x.to(device))
        return x.cpu()


# %% wrong: relu_added
# Thinks that there is a ReLU after each part, as in SimpleMPModel.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(parts)
        for part, device in zip(parts, devices):
            part.to(device)

    def forward(self, x):
        for part, device in zip(self.parts, self.devices):
            x = torch.relu(part(x.to(device)))
        return x


# %% wrong: weights_travel
# Keeps all parts on their devices, but brings each to the first device to compute there.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, devices))

    def forward(self, x):
        x = x.to(self.devices[0])
        for part, device in zip(self.parts, self.devices):
            part.to(self.devices[0])
            x = part(x)
            part.to(device)
        return x.to(self.devices[-1])


# %% right: three_attributes
# Each part is an attribute, and forward has three lines.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.part0, self.part1, self.part2 = parts
        self.device0, self.device1, self.device2 = devices
        self.part0.to(self.device0)
        self.part1.to(self.device1)
        self.part2.to(self.device2)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return self.part2(x.to(self.device2))


# %% right: sequential_and_the_weights_device
# Asks the first parameter of each part where it is.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.stages = nn.Sequential(*[p.to(d) for p, d in zip(parts, devices)])

    def forward(self, batch):
        for stage in self.stages:
            where = next(stage.parameters()).device
            batch = batch.to(where)
            batch = stage(batch)
        return batch


# %% right: hooks_that_move
# A hook before each part brings its input.

class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.chain = nn.Sequential(*parts)
        for part, device in zip(parts, devices):
            part.to(device)
            part.register_forward_pre_hook(lambda module, args, device=device: (args[0].to(device),))

    def forward(self, x):
        return self.chain(x)


# %% right: copies_of_the_parts
# Leaves the given parts where they are, and splits copies.

import copy


class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = list(devices)
        for number, (part, device) in enumerate(zip(parts, devices)):
            self.add_module(f"part{number}", copy.deepcopy(part).to(device))

    def forward(self, x):
        for number, device in enumerate(self.devices):
            x = getattr(self, f"part{number}")(x.to(device))
        return x
