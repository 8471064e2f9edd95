"""Takes out every move, also the one that the second layer needs."""

class Mended(Detour):
    def forward(self, x):
        x = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(x))
