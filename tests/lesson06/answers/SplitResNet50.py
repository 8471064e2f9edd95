# %% wrong: no_flatten
# Thinks that forward calls the parts one after another, and forgets the line that calls no part.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        for name, part in self.named_children():
            part.to(device1 if name in ("layer3", "layer4", "avgpool", "fc") else device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x)).to(self.device1)
        return self.fc(self.avgpool(self.layer4(self.layer3(x))))


# %% wrong: as_the_tutorial_did
# Thinks that parts have to be put together before they can be moved, so every parameter gets a second name.

from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        self.seq1 = nn.Sequential(
            self.conv1, self.bn1, self.relu, self.maxpool, self.layer1, self.layer2
        ).to(device0)
        self.seq2 = nn.Sequential(self.layer3, self.layer4, self.avgpool).to(device1)
        self.fc.to(device1)

    def forward(self, x):
        x = self.seq2(self.seq1(x.to(self.device0)).to(self.device1))
        return self.fc(x.flatten(1))


# %% wrong: the_output_comes_back
# Thinks that a model has to return its output on the device where it took the batch.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        self.to(device0)
        self.layer3.to(device1)
        self.layer4.to(device1)
        self.fc.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x)).to(self.device1)
        x = self.avgpool(self.layer4(self.layer3(x)))
        return self.fc(x.flatten(1)).to(self.device0)


# %% wrong: the_batch_is_not_moved
# Thinks that the caller has moved the batch.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device1 = device1
        self.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x)).to(self.device1)
        x = self.avgpool(self.layer4(self.layer3(x)))
        return self.fc(x.flatten(1))


# %% wrong: only_layer4_and_fc
# Thinks that the cut is in the middle of the four stages' weights, and leaves layer3 on device0.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        self.to(device0)
        self.layer4.to(device1)
        self.fc.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer3(self.layer2(self.layer1(x)))
        x = self.avgpool(self.layer4(x.to(self.device1)))
        return self.fc(x.flatten(1))


# %% wrong: detached_at_the_bridge
# Thinks that what crosses to another device has to be cut from the graph first.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        self.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x)).detach().to(self.device1)
        x = self.avgpool(self.layer4(self.layer3(x)))
        return self.fc(x.flatten(1))


# %% right: all_to_the_first_then_three_to_the_second
# Moves all of it to device0, then three parts on to device1.

import torch
from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0 = device0
        self.device1 = device1
        self.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = x.to(self.device0)
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = x.to(self.device1)
        x = self.layer3(x)
        x = self.layer4(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.fc(x)


# %% right: by_hooks
# Leaves forward as it is, and moves the input of two parts in hooks.

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        for name, part in self.named_children():
            part.to(device1 if name in ("layer3", "layer4", "fc") else device0)
        self.conv1.register_forward_pre_hook(lambda part, inputs: inputs[0].to(device0))
        self.layer3.register_forward_pre_hook(lambda part, inputs: inputs[0].to(device1))

    def forward(self, x):
        return super().forward(x)
