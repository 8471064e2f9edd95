"""Throws the ReLU in the middle away together with its detour."""

class Mended(Detour):
    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = self.layer2(x.to(self.device1))
        return torch.relu(x)
