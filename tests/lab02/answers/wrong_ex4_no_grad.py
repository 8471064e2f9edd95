"""Thinks that a move belongs under no_grad."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        with torch.no_grad():
            x = x.to(self.device1)
        return torch.relu(self.layer2(x))
