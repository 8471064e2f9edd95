# %% wrong: batch_needs_gradient
# Thinks that training needs gradients of the batch, so its gradient goes back to the CPU.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        x.requires_grad_()
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        return torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: first_to_the_wrong_device
# Leaves the batch to visit device1 first, because the shortcut wants it there anyway.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.register_buffer("there", self.mean.to(device1))

    def forward(self, x):
        x = x.to(self.device1) - self.there
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x))


# %% wrong: mean_fetched_each_time
# Fetches the mean from the CPU in each forward, because it was made there.

class Mended(Detour):
    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean.to(self.device0)))
        short = self.shortcut(x.to(self.device1) - self.mean.to(self.device1))
        return torch.relu(self.layer2(hidden.to(self.device1)) + short)


# %% wrong: mean_is_a_parameter
# Makes a parameter of the mean, because it belongs to the model.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        mean = self.mean
        self.mean0 = nn.Parameter(mean.to(device0))
        self.mean1 = nn.Parameter(mean.to(device1))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        short = self.shortcut(x.to(self.device1) - self.mean1)
        return torch.relu(self.layer2(hidden.to(self.device1)) + short)


# %% wrong: mean_lost
# Takes the mean out together with its move.

class Mended(Detour):
    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x.to(self.device1)))


# %% wrong: moves_the_layer
# Moves the second layer to the data, and back again, in every forward.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        self.layer2.to(self.device0)
        hidden = self.layer2(hidden)
        self.layer2.to(self.device1)
        return torch.relu(hidden.to(self.device1) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: no_grad
# Thinks that a move belongs under no_grad.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        with torch.no_grad():
            hidden = hidden.to(self.device1)
        return torch.relu(self.layer2(hidden) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: notebook_devices
# Uses the devices of the notebook, not those that the model was given.

class Mended(Detour):
    def __init__(self, sizes, first, second):
        super().__init__(sizes, first, second)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(device0) - self.mean0))
        return torch.relu(self.layer2(hidden.to(device1)) + self.shortcut(x.to(device1) - self.mean1))


# %% wrong: nothing_returned
# Computes everything and forgets the return.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        hidden = torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: output_on_device0
# Brings the output to device0, where the model began.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        output = torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x.to(self.device1) - self.mean1))
        return output.to(self.device0)


# %% wrong: relu_lost
# Throws the ReLU in the middle away together with its detour.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = self.layer1(x.to(self.device0) - self.mean0)
        return torch.relu(self.layer2(hidden.to(self.device1)) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: shortcut_left_on_device0
# Leaves the sum on device0, where the shortcut's result had been taken.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        short = self.shortcut(x.to(self.device1) - self.mean1)
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        output = self.layer2(hidden.to(self.device1)).to(self.device0) + short.to(self.device0)
        return torch.relu(output).to(self.device1)


# %% wrong: still_detached
# Takes the detours out and leaves the detach, because the output is right.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        short = self.shortcut(x.to(self.device1) - self.mean1)
        return torch.relu(self.layer2(hidden.detach().to(self.device1)) + short)


# %% wrong: still_through_the_host
# Thinks that a tensor has to go through the CPU from one GPU to another.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        short = self.shortcut(x.to(self.device1) - self.mean1)
        return torch.relu(self.layer2(hidden.cpu().to(self.device1)) + short)


# %% wrong: too_few_moves
# Takes out every move, also the one that the second layer needs.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.mean0, self.mean1 = self.mean.to(device0), self.mean.to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0) - self.mean0))
        return torch.relu(self.layer2(hidden) + self.shortcut(x.to(self.device1) - self.mean1))


# %% wrong: shortcut_moved_to_device0
# Puts the shortcut where the batch is already, so that the batch goes one way only.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.shortcut.to(device0)
        self.register_buffer("mean0", self.mean.to(device0))

    def forward(self, x):
        x = x.to(self.device0) - self.mean0
        hidden, short = torch.relu(self.layer1(x)).to(self.device1), self.shortcut(x).to(self.device1)
        return torch.relu(self.layer2(hidden) + short)


# %% wrong: forward_uses_the_devices_of_the_notebook
# Places everything on the devices that it is given, and moves the data to those of the notebook.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.register_buffer("mean0", self.mean.to(device0))
        self.register_buffer("mean1", self.mean.to(device1))

    def forward(self, x):
        on_device0 = x.to(device0) - self.mean0
        on_device1 = x.to(device1) - self.mean1
        hidden = torch.relu(self.layer1(on_device0)).to(device1)
        return torch.relu(self.layer2(hidden) + self.shortcut(on_device1))


# %% right: line_by_line
# One thing a line, with prints; a buffer for each device.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        del self.mean
        inputs = sizes[0]
        self.register_buffer("mean0", torch.linspace(-1, 1, inputs).to(device0))
        self.register_buffer("mean1", torch.linspace(-1, 1, inputs).to(device1))

    def forward(self, x):
        x0 = x.to(self.device0)
        x1 = x.to(self.device1)
        x0 = x0 - self.mean0
        x1 = x1 - self.mean1
        hidden = self.layer1(x0)
        hidden = torch.relu(hidden)
        print("before the move:", hidden.device)
        hidden = hidden.to(self.device1)
        print("after the move:", hidden.device)
        output = self.layer2(hidden) + self.shortcut(x1)
        return torch.relu(output)


# %% right: own_layers
# A model of its own, with other names, and the batch moved to the device of the weights.

import torch.nn.functional as F


class Mended(nn.Module):
    def __init__(self, sizes, first, second):
        super().__init__()
        wide, hidden, narrow = sizes
        self.up = nn.Linear(wide, hidden, device=first)
        self.down = nn.Linear(hidden, narrow, device=second)
        self.short = nn.Linear(wide, narrow, device=second)
        self.means = {place: torch.linspace(-1, 1, wide).to(place) for place in {first, second}}

    def centred(self, x, place):
        return x.to(place) - self.means[place]

    def forward(self, x):
        first, second = self.up.weight.device, self.down.weight.device
        hidden = F.relu(self.up(self.centred(x, first)))
        return F.relu(self.down(hidden.to(second)) + self.short(self.centred(x, second)))


# %% right: relu_after_the_move
# Moves first and computes the ReLUs on device1, as a clamp; the mean goes into the layers' own devices once.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.means = [self.mean.to(device) for device in (device0, device1)]

    def forward(self, x):
        short = self.shortcut(x.to(self.device1) - self.means[1])
        hidden = self.layer1(x.to(self.device0) - self.means[0]).to(self.device1, non_blocking=True)
        return (self.layer2(hidden.clamp(min=0)) + short).clamp(min=0)


# %% right: a_mean_beside_each_layer
# Makes the layers itself, keeps the mean beside each under one name, and asks the weights where they are.

class Mended(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        n_in, n_mid, n_out = sizes
        self.enter, self.leave = nn.Linear(n_in, n_mid, device=device0), nn.Linear(n_mid, n_out, device=device1)
        self.past = nn.Linear(n_in, n_out, device=device1)
        for layer in (self.enter, self.past):
            mean = torch.linspace(-1, 1, n_in).to(layer.weight.device)
            layer.register_buffer("mean", mean, persistent=False)

    def forward(self, x):
        first, past = (layer(x.to(layer.weight.device) - layer.mean) for layer in (self.enter, self.past))
        return (self.leave(first.relu().to(past.device)) + past).relu()


# %% wrong: batch_from_the_cpu
# Thinks that the way to device1 begins on the CPU, and fetches the batch from there also when it is on device0.

class Mended(Detour):
    def __init__(self, sizes, device0, device1):
        super().__init__(sizes, device0, device1)
        self.register_buffer("mean0", self.mean.to(device0))
        self.register_buffer("mean1", self.mean.to(device1))

    def forward(self, x):
        on_device0 = x.to(self.device0) - self.mean0
        on_device1 = x.cpu().to(self.device1) - self.mean1
        hidden = torch.relu(self.layer1(on_device0)).to(self.device1)
        return torch.relu(self.layer2(hidden) + self.shortcut(on_device1))
