"""Uses the devices of the notebook, not those that the model was given."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(device0)))
        return torch.relu(self.layer2(x.to(device1)))
