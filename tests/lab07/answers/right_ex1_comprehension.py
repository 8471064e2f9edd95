"""In one line, with the parts as the layers of a Sequential."""


class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.parts = nn.Sequential(part0.to(device0), part1.to(device1))

    def forward(self, x, size):
        first, second = self.parts
        return torch.vstack([second(first(p).to(self.device1)) for p in torch.split(x.to(self.device0), size)])
