# %% wrong: all_on_first
# Thinks that a model is split when its output is on the second device, and computes all on the first.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        self.to(device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x))
        return self.fc(self.avgpool(x).flatten(1)).to(self.device1)


# %% wrong: batch_flattened_too
# Flattens everything, the images of the batch too.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten())


# %% wrong: batch_size_by_heart
# Writes the size of the example's batch down.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).view(2, -1))


# %% wrong: batchnorm_left_on_cpu
# Places the layers that have 'layer' or 'conv' in their names, and forgets bn1.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: cut_one_too_early
# Cuts before layer2.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1):
            part.to(device0)
        for part in (self.layer2, self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer1(x)
        x = self.layer4(self.layer3(self.layer2(x.to(self.device1))))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: cut_one_too_late
# Counts the stem as the first of the layers, and has layer3 on the first device too.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2, self.layer3):
            part.to(device0)
        for part in (self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer3(self.layer2(self.layer1(x)))
        x = self.layer4(x.to(self.device1))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: detached_between
# Thinks that a tensor must be detached before it changes its device.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.detach().to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: fc_left_on_cpu
# Forgets to place the last layer.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: fc_left_on_first
# Leaves the last layer where the first ones are, because it stands outside the four layers.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2, self.fc):
            part.to(device0)
        for part in (self.layer3, self.layer4):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: first_part_without_gradient
# Runs the first part under no_grad, because its graph is on another device.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        with torch.no_grad():
            x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
            x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: flatten_forgotten
# Writes down the parts with names only, and forgets the line that flattens.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x))


# %% wrong: in_evaluation_mode
# Switches the model to evaluation mode when it is made, and leaves it there.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)
        self.eval()

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: inherited_forward
# Places the parts, and calls the inherited forward.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        return super().forward(x.to(self.device0)).to(self.device1)


# %% wrong: new_fc_by_heart
# Makes the last layer anew, with ten classes as in the example, whatever the options say.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)
        self.fc = nn.Linear(512, 10).to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: no_move_between
# Thinks that two GPUs share their memory.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: notebook_devices
# Uses the devices of the notebook in forward, not those that the model was given.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(globals()['device0'])))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(globals()['device1'])))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: options_dropped
# Forgets to pass the options on, so that there are always 1000 classes.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: output_back_to_cpu
# Thinks that a caller who gives a batch on the CPU must get the output on the CPU.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1)).cpu()


# %% wrong: output_back_to_first
# Thinks that the output has to go back to where the model began.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1)).to(self.device0)


# %% wrong: resnet18_by_heart
# Always makes a ResNet18.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, [2, 2, 2, 2], **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: squeezed
# Squeezes instead of flattening, so that a batch of one image loses its first dimension.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).squeeze())


# %% wrong: statistics_frozen
# Switches BatchNorm to evaluation mode in forward, so that two devices need not agree about a batch.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: stem_incomplete
# Leaves the ReLU and the pooling of the stem out, because they have no weights.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.bn1(self.conv1(x.to(self.device0)))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: to_without_keeping
# Thinks that x.to(device) moves x in place.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x.to(self.device1)
        x = self.layer4(self.layer3(x))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: two_names_for_each
# Puts the parts into two nn.Sequentials that are attributes too, so each parameter has two names.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        stem = (self.conv1, self.bn1, self.relu, self.maxpool)
        self.seq1 = nn.Sequential(*stem, self.layer1, self.layer2).to(device0)
        self.seq2 = nn.Sequential(self.layer3, self.layer4, self.avgpool).to(device1)
        self.fc.to(device1)

    def forward(self, x):
        x = self.seq2(self.seq1(x.to(self.device0)).to(self.device1))
        return self.fc(x.flatten(1))


# %% wrong: whole_model_moved_at_the_end
# Thinks that a model always has to be moved as a whole in the end, and so undoes the split.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)
        self.to(device1)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))


# %% right: forward_impl
# Overrides the method that ResNet's forward calls, and reshapes as older code does.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        x = self.avgpool(x)
        return self.fc(x.view(x.size(0), -1))


# %% right: hooks_move_the_batch
# Leaves ResNet's own forward as it is, and has hooks move what comes in.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)
        self.conv1.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(self.device0),))
        self.layer3.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(self.device1),))


# %% right: loop_over_children
# Goes through all parts in their order, and moves the batch before each.

import warnings


class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.place = {}
        device = device0
        for name, part in self.named_children():
            if name == "layer3":
                device = device1
            self.place[name] = device
            part.to(device)
        warnings.warn("placed")

    def forward(self, images):
        hidden = images
        for name, part in self.named_children():
            if name == "fc":
                hidden = torch.flatten(hidden, 1)
            hidden = part(hidden.to(self.place[name]))
        return hidden


# %% right: sequential_in_forward
# Groups the parts in nn.Sequentials that are made in forward, of layers that are there already.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        first = nn.Sequential(self.conv1, self.bn1, self.relu, self.maxpool, self.layer1, self.layer2)
        second = nn.Sequential(self.layer3, self.layer4, self.avgpool, nn.Flatten(), self.fc)
        return second(first(x.to(self.device0)).to(self.device1))


# %% right: whole_then_back
# Moves the whole model to the second device, and the first half back.

class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        self.to(device1)
        for name in ("conv1", "bn1", "layer1", "layer2"):
            getattr(self, name).to(device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))
