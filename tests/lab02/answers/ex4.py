# %% wrong: batch_needs_gradient
# Thinks that training needs gradients of the batch, so its gradient goes back to the CPU.

class Mended(Detour):
    def forward(self, x):
        x.requires_grad_()
        x = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(x.to(self.device1)))


# %% wrong: first_to_the_wrong_device
# Leaves the batch to visit device1 first.

class Mended(Detour):
    def forward(self, x):
        x = x.to(self.device1).to(self.device0)
        x = torch.relu(self.layer1(x))
        return torch.relu(self.layer2(x.to(self.device1)))


# %% wrong: moved_twice
# Moves the hidden result once for every use of it.

class Mended(Detour):
    def forward(self, x):
        hidden = self.layer1(x.to(self.device0))
        positive = (hidden.to(self.device1) > 0) * hidden.to(self.device1)
        return torch.relu(self.layer2(positive))


# %% wrong: moves_the_layer
# Moves the second layer to the data, and back again, in every forward.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        self.layer2.to(self.device0)
        x = torch.relu(self.layer2(x))
        self.layer2.to(self.device1)
        return x.to(self.device1)


# %% wrong: no_grad
# Thinks that a move belongs under no_grad.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        with torch.no_grad():
            x = x.to(self.device1)
        return torch.relu(self.layer2(x))


# %% wrong: notebook_devices
# Uses the devices of the notebook, not those that the model was given.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(device0)))
        return torch.relu(self.layer2(x.to(device1)))


# %% wrong: nothing_returned
# Computes everything and forgets the return.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = torch.relu(self.layer2(x.to(self.device1)))


# %% wrong: output_on_device0
# Brings the output to device0, where the model began.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = torch.relu(self.layer2(x.to(self.device1)))
        return x.to(self.device0)


# %% wrong: relu_lost
# Throws the ReLU in the middle away together with its detour.

class Mended(Detour):
    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = self.layer2(x.to(self.device1))
        return torch.relu(x)


# %% wrong: relu_on_the_cpu
# Leaves the ReLU on the CPU.

class Mended(Detour):
    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = torch.relu(x.cpu())
        return torch.relu(self.layer2(x.to(self.device1)))


# %% wrong: still_detached
# Takes the detours out and leaves the detach, because the output is right.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = x.detach().to(self.device1)
        return torch.relu(self.layer2(x))


# %% wrong: still_through_the_host
# Thinks that a tensor has to go through the CPU from one GPU to another.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = x.cpu().to(self.device1)
        return torch.relu(self.layer2(x))


# %% wrong: to_and_fro_at_the_end
# Leaves the last ReLU on device0, and moves the output there and back.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = self.layer2(x.to(self.device1))
        x = torch.relu(x.to(self.device0))
        return x.to(self.device1)


# %% wrong: too_few_moves
# Takes out every move, also the one that the second layer needs.

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(x))


# %% right: line_by_line
# One thing a line, with prints.

class Mended(Detour):
    def forward(self, x):
        x = x.to(self.device0)
        x = self.layer1(x)
        x = torch.relu(x)
        print("before the move:", x.device)
        x = x.to(self.device1)
        print("after the move:", x.device)
        x = self.layer2(x)
        x = torch.relu(x)
        return x


# %% right: own_layers
# A model of its own, with other names, and the batch moved to wherever the weights are.

import torch.nn.functional as F


class Mended(nn.Module):
    def __init__(self, sizes, first, second):
        super().__init__()
        self.steps = nn.ModuleList(
            nn.Linear(a, b, device=place) for a, b, place in zip(sizes, sizes[1:], (first, second))
        )

    def forward(self, x):
        for step in self.steps:
            x = F.relu(step(x.to(step.weight.device)))
        return x


# %% right: relu_after_the_move
# Moves first and computes both ReLUs on device1, as a clamp.

class Mended(Detour):
    def forward(self, x):
        hidden = self.layer1(x.to(self.device0)).to(self.device1, non_blocking=True)
        return self.layer2(hidden.clamp(min=0)).clamp(min=0)
