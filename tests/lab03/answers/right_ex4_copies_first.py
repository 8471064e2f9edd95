"""Makes both copies of the batch before anything is launched, one from the other."""


class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        x0 = x.to(self.device0)
        x1 = x0.to(self.device1)
        joined = torch.hstack([self.branch0(x0), self.branch1(x1).to(self.device0)])
        return self.head(joined)
