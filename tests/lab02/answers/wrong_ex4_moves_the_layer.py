"""Moves the second layer to the data, and back again, in every forward."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        self.layer2.to(self.device0)
        x = torch.relu(self.layer2(x))
        self.layer2.to(self.device1)
        return x.to(self.device1)
