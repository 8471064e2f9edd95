"""Moves the hidden result once for every use of it."""

class Mended(Detour):
    def forward(self, x):
        hidden = self.layer1(x.to(self.device0))
        positive = (hidden.to(self.device1) > 0) * hidden.to(self.device1)
        return torch.relu(self.layer2(positive))
