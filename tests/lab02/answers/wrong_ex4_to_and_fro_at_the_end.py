"""Leaves the last ReLU on device0, and moves the output there and back."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = self.layer2(x.to(self.device1))
        x = torch.relu(x.to(self.device0))
        return x.to(self.device1)
