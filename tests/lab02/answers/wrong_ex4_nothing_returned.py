"""Computes everything and forgets the return."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = torch.relu(self.layer2(x.to(self.device1)))
