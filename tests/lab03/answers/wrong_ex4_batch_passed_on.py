"""Moves the copy of the batch on from device0 to device1 after the first branch: the copy waits for the branch."""


class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        x = x.to(self.device0)
        result0 = self.branch0(x)
        x = x.to(self.device1)
        result1 = self.branch1(x)
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))
