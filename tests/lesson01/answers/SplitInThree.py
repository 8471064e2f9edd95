# %% wrong: stages_in_a_plain_list
# Thinks that a plain Python list of stages is as good as a ModuleList, so the model has no parameters.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = [stage.to(device) for stage, device in zip(stages, devices)]

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices):
            x = stage(x.to(device))
        return x


# %% wrong: copy_not_kept
# Thinks that .to moves a tensor in place, as it moves a layer.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stages)
        for i in range(3):
            self.stages[i].to(devices[i])

    def forward(self, x):
        for i in range(3):
            x.to(self.devices[i])
            x = self.stages[i](x)
        return x


# %% wrong: devices_of_the_notebook
# Uses the two devices of the notebook instead of those that it is given.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stage0 = stages[0].to("simgpu:0")
        self.stage1 = stages[1].to("simgpu:1")
        self.stage2 = stages[2].to("simgpu:0")

    def forward(self, x):
        x = self.stage0(x.to("simgpu:0"))
        x = self.stage1(x.to("simgpu:1"))
        return self.stage2(x.to("simgpu:0"))


# %% wrong: last_move_forgotten
# Moves the batch to the first and to the second stage only, because SimpleMPModel has two moves.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.a, self.b, self.c = stages[0].to(devices[0]), stages[1].to(devices[1]), stages[2].to(devices[2])

    def forward(self, x):
        x = self.a(x.to(self.devices[0]))
        x = self.b(x.to(self.devices[1]))
        return self.c(x)


# %% wrong: detached_at_the_border
# Thinks that a tensor has to be detached before it changes its device.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices):
            x = stage(x.detach().to(device))
        return x


# %% wrong: output_back_on_the_cpu
# Thinks that an output has to come back to where the batch came from.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stages)
        for stage, device in zip(stages, devices):
            stage.to(device)

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices):
            x = stage(x.to(device))
        return x.cpu()


# %% wrong: relu_added
# Thinks that there is a ReLU after each stage, as in SimpleMPModel.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stages)
        for stage, device in zip(stages, devices):
            stage.to(device)

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices):
            x = torch.relu(stage(x.to(device)))
        return x


# %% wrong: weights_travel
# Keeps all stages on their devices, but brings each to the first device to compute there.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(stage.to(device) for stage, device in zip(stages, devices))

    def forward(self, x):
        x = x.to(self.devices[0])
        for stage, device in zip(self.stages, self.devices):
            stage.to(self.devices[0])
            x = stage(x)
            stage.to(device)
        return x.to(self.devices[-1])


# %% right: three_attributes
# Each stage is an attribute, and forward has three lines.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.stage0, self.stage1, self.stage2 = stages
        self.device0, self.device1, self.device2 = devices
        self.stage0.to(self.device0)
        self.stage1.to(self.device1)
        self.stage2.to(self.device2)

    def forward(self, x):
        x = self.stage0(x.to(self.device0))
        x = self.stage1(x.to(self.device1))
        return self.stage2(x.to(self.device2))


# %% right: sequential_and_the_weights_device
# Asks the first parameter of each stage where it is.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.chain = nn.Sequential(*[s.to(d) for s, d in zip(stages, devices)])

    def forward(self, batch):
        for stage in self.chain:
            where = next(stage.parameters()).device
            batch = batch.to(where)
            batch = stage(batch)
        return batch


# %% right: hooks_that_move
# A hook before each stage brings its input.

class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.chain = nn.Sequential(*stages)
        for stage, device in zip(stages, devices):
            stage.to(device)
            stage.register_forward_pre_hook(lambda module, args, device=device: (args[0].to(device),))

    def forward(self, x):
        return self.chain(x)


# %% right: copies_of_the_stages
# Leaves the given stages where they are, and splits copies.

import copy


class SplitInThree(nn.Module):
    def __init__(self, stages, devices):
        super().__init__()
        self.devices = list(devices)
        for number, (stage, device) in enumerate(zip(stages, devices)):
            self.add_module(f"stage{number}", copy.deepcopy(stage).to(device))

    def forward(self, x):
        for number, device in enumerate(self.devices):
            x = getattr(self, f"stage{number}")(x.to(device))
        return x
