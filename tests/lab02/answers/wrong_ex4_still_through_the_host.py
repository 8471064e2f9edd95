"""Thinks that a tensor has to go through the CPU from one GPU to another."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        x = x.cpu().to(self.device1)
        return torch.relu(self.layer2(x))
