"""One thing a line, with prints."""

class Mended(Detour):
    def forward(self, x):
        x = x.to(self.device0)
        x = self.layer1(x)
        x = torch.relu(x)
        print("before the move:", x.device)
        x = x.to(self.device1)
        print("after the move:", x.device)
        x = self.layer2(x)
        x = torch.relu(x)
        return x
