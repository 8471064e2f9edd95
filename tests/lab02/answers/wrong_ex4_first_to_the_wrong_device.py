"""Leaves the batch to visit device1 first."""

class Mended(Detour):
    def forward(self, x):
        x = x.to(self.device1).to(self.device0)
        x = torch.relu(self.layer1(x))
        return torch.relu(self.layer2(x.to(self.device1)))
