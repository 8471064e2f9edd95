"""Brings the output to device0, where the model began."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = torch.relu(self.layer2(x.to(self.device1)))
        return x.to(self.device0)
