# %% wrong: scale_from_the_cpu
# Multiplies before the move, and still fetches the scale from the CPU in each forward.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)
        self.scale = torch.linspace(0.5, 1.5, hidden)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2((hidden * gate * self.scale.to(self.device0)).to(self.device1))


# %% wrong: two_still_cross
# Makes the scale a buffer, and leaves both factors to cross.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden).to(device1))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2(hidden.to(self.device1) * gate.to(self.device1) * self.scale)


# %% wrong: gate_moved_too
# Puts the gate on device1, so that hidden crosses once: but the layer is not where it was, and neither is the scale.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device0)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden).to(device0))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2(hidden * gate * self.scale).to(self.device1)


# %% wrong: scale_lost
# Takes the scale out together with its move.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2((hidden * gate).to(self.device1))


# %% wrong: detached
# Detaches before the move, so that nothing has to go back.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden).to(device0))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2((hidden * gate * self.scale).detach().to(self.device1))


# %% wrong: scale_is_trained
# Makes the scale a parameter, because a parameter moves with the model.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, hidden).to(device0))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        return self.layer2((hidden * gate * self.scale).to(self.device1))


# %% right: scale_on_device1
# Moves the product, and scales it on the other side.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(sizes[0], sizes[1], device=device0)
        self.gate = nn.Linear(sizes[1], sizes[1], device=device0)
        self.layer2 = nn.Linear(sizes[1], sizes[2], device=device1)
        self.scale = torch.linspace(0.5, 1.5, sizes[1]).to(device1)

    def forward(self, x):
        x = self.layer1(x.to(self.device0)).relu()
        x = x * self.gate(x).sigmoid()
        return self.layer2(x.to(self.device1) * self.scale)


# %% right: parts_in_place
# Sequential parts, and the scale made on the device itself.

class Untangled(nn.Module):
    def __init__(self, sizes, device0, device1):
        super().__init__()
        inputs, hidden, outputs = sizes
        self.first = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU()).to(device0)
        self.gate = nn.Sequential(nn.Linear(hidden, hidden), nn.Sigmoid()).to(device0)
        self.last = nn.Linear(hidden, outputs).to(device1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden, device=device0))

    def forward(self, x):
        hidden = self.first(x.to(self.scale.device))
        mixed = self.scale * hidden
        mixed = mixed * self.gate(hidden)
        return self.last(mixed.to(self.last.weight.device))
