"""Thinks that the devices are always called what the first cell printed, and writes these names down."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to("simgpu:0")
        self.part1 = layers[cut:].to("simgpu:1")

    def forward(self, x):
        x = self.part0(x.to("simgpu:0"))
        return self.part1(x.to("simgpu:1"))
