# %% wrong: cut_counts_groups
# Thinks that the cut counts the groups layer1 to layer4, not the blocks in them.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.groups = cut
        for part in (self.conv1, self.bn1, *self.all_groups()[:cut]):
            part.to(device0)
        for part in (*self.all_groups()[cut:], self.fc):
            part.to(device1)

    def all_groups(self):
        return [self.layer1, self.layer2, self.layer3, self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, group in enumerate(self.all_groups()):
            if number == self.cut:
                x = x.to(self.device1)
            x = group(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: always_after_layer2
# Takes the cut of the lesson, whatever is asked for.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for name, part in self.named_children():
            part.to(device1 if name in ("layer3", "layer4", "avgpool", "fc") else device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.avgpool(self.layer4(self.layer3(x.to(self.device1))))
        return self.fc(x.flatten(1))


# %% wrong: blocks_as_an_attribute
# Keeps the blocks in an nn.Sequential, so every block has a second name.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        self.chain = nn.Sequential(*self.all_blocks())
        for part in (*self.chain[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.chain):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: one_block_too_many
# Counts the cut from one, so device0 gets one block more.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut + 1:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut + 1:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: moved_too_late
# Moves the data after the first block of device1 has been called.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            x = block(x)
            if number == self.cut:
                x = x.to(self.device1)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: flatten_forgotten
# Forgets the line of forward that calls no part.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x))


# %% wrong: fc_left_behind
# Places the blocks and forgets fc, which stays on the first device.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in self.all_blocks()[cut:]:
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: devices_of_the_notebook
# Uses the devices of the notebook, not those that the class is given.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, *devices(2, quiet=True)
        self.to(self.device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(self.device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: output_back_on_the_first
# Thinks that the output has to come back to where the batch went in.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1)).to(self.device0)


# %% wrong: detached_at_the_cut
# Thinks that a tensor has to leave the graph before it can leave the device.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.detach().to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: depth_by_heart
# Writes down where the blocks of ResNet18 are, and has no others.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [group[n] for group in (self.layer1, self.layer2, self.layer3, self.layer4) for n in range(2)]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: plain_list_made_new
# Makes new blocks for device1, with other weights and without a name.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        self.late = [copy.deepcopy(block).to(device1) for block in self.all_blocks()[cut:]]
        self.fc.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate([*self.all_blocks()[: self.cut], *self.late]):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: evaluation_mode_from_the_start
# Switches the new model to evaluation mode, as is done with a checkpoint that is loaded to be used.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)
        self.eval()

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: forward_uses_the_devices_of_the_notebook
# Places the parts on the devices that it is given, and moves the data to those of the notebook.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut = cut
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        return [*self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


# %% right: each_block_moves_its_input
# Asks each block where it is, and moves the data there.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1):
            part.to(device0)
        self.fc.to(device1)
        number = 0
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in stage:
                block.to(device0 if number < cut else device1)
                number += 1

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in stage:
                x = block(x.to(block.conv1.weight.device))
        x = self.avgpool(x)
        return self.fc(torch.flatten(x, 1))


# %% right: hooks_and_the_old_forward
# Leaves forward as it was, and lets hooks move the batch and what crosses.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        self.to(device0)
        every = [b for s in (self.layer1, self.layer2, self.layer3, self.layer4) for b in s]
        for b in every[cut:]:
            b.to(device1)
        self.fc.to(device1)
        self.conv1.register_forward_pre_hook(lambda _, inputs: inputs[0].to(device0))
        every[cut].register_forward_pre_hook(lambda _, inputs: inputs[0].to(device1))

    def forward(self, x):
        return super().forward(x)


# %% right: an_iterator
# Chains the groups, and takes as many blocks from them as the cut says.

from itertools import chain, islice


class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut = cut
        self.device0, self.device1 = device0, device1
        early = list(islice(self._blocks(), cut))
        self.to(device1)
        for part in [self.conv1, self.bn1, *early]:
            part.to(device0)

    def _blocks(self):
        return chain(self.layer1, self.layer2, self.layer3, self.layer4)

    def forward(self, x):
        blocks = self._blocks()
        x = self.conv1(x.to(self.device0))
        x = self.maxpool(self.relu(self.bn1(x)))
        for block in islice(blocks, self.cut):
            x = block(x)
        x = x.to(self.device1)
        for block in blocks:
            x = block(x)
        return self.fc(self.avgpool(x).view(x.size(0), -1))


# %% right: one_pass_to_try_it
# Runs the new model once in evaluation mode, to see that it works, and goes back to training mode.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.devices = [device0] * cut + [device1] * (sum(blocks) - cut)
        self.conv1.to(device0)
        self.bn1.to(device0)
        self.fc.to(device1)
        for block, device in zip(self._chain(), self.devices):
            block.to(device)
        self.eval()
        with torch.no_grad():
            assert self(torch.zeros(1, 3, 32, 32)).device == torch.device(device1)
        self.train()

    def _chain(self):
        return sum(([*group] for group in (self.layer1, self.layer2, self.layer3, self.layer4)), [])

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.devices[0])))))
        for block, device in zip(self._chain(), self.devices):
            x = block(x.to(device))
        return self.fc(self.avgpool(x).flatten(1))


# %% wrong: one_image_squeezed
# Takes out every dimension of one number, also that of the batch where it has one image.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        # Made for each call: an attribute would give the blocks a second name.
        return [block for group in (self.layer1, self.layer2, self.layer3, self.layer4) for block in group]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).squeeze())


# %% wrong: one_block_a_group_behind_layer1
# Lists all blocks of layer1 and one of each other group, as the models in the trials have them.

class SplitResNet(ResNet):
    def __init__(self, blocks, cut, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.to(device0)
        for part in (*self.all_blocks()[cut:], self.fc):
            part.to(device1)

    def all_blocks(self):
        # Made for each call: an attribute would give the blocks a second name.
        return [*self.layer1, *(group[0] for group in (self.layer2, self.layer3, self.layer4))]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        for number, block in enumerate(self.all_blocks()):
            if number == self.cut:
                x = x.to(self.device1)
            x = block(x)
        return self.fc(self.avgpool(x).flatten(1))
