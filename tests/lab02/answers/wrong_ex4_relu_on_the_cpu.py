"""Leaves the ReLU on the CPU."""

class Mended(Detour):
    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = torch.relu(x.cpu())
        return torch.relu(self.layer2(x.to(self.device1)))
