# %% wrong: as_in_the_lesson
# Copies the batch for branch1 after branch0 has been launched: from a GPU that copy waits for branch0.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% wrong: batch_not_moved
# Thinks that a branch fetches its batch.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x)
        result1 = self.branch1(x)
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% wrong: batch_passed_on
# Moves the copy of the batch on from device0 to device1 after the first branch: the copy waits for the branch.

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


# %% wrong: both_on_device0
# Puts everything on one device and moves one input there and back.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device0)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1).to(self.device0))
        return self.head(torch.cat([result0, result1], dim=1))


# %% wrong: chain
# Thinks of branches as of a chain, and gives the first one's input on only after it.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        hidden = self.branch0(x.to(self.device0))
        hidden = self.branch1(hidden.to(self.device1))
        return self.head(hidden.to(self.device0))


# %% wrong: detached_before_the_move
# Thinks that a result must be detached before it changes its device, so branch1 is not trained.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1)).detach()
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% wrong: joined_below
# Joins along the batch, as torch.cat does when it is not told.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result0, result1.to(self.device0)]))


# %% wrong: joined_on_device1
# Joins and ends on the second device, where chains end.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device1)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result0.to(self.device1), result1], dim=1))


# %% wrong: joined_on_the_cpu
# Thinks that results of two devices have to be joined on the CPU, and waits for each copy there.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0)).cpu()
        result1 = self.branch1(x.to(self.device1)).cpu()
        return self.head(torch.cat([result0, result1], dim=1).to(self.device0))


# %% wrong: joined_without_moving
# Thinks that torch.cat brings its operands together.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result0, result1], dim=1))


# %% wrong: notebook_devices
# Uses the devices of the notebook in forward, not those that the model was given.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(device0))
        result1 = self.branch1(x.to(device1))
        return self.head(torch.cat([result0, result1.to(device0)], dim=1))


# %% wrong: other_order
# Joins branch1's result first, so that head mixes them up.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result1.to(self.device0), result0], dim=1))


# %% wrong: result_fetched_too_early
# Fetches branch1's result to device0 before branch0 is launched there, which then waits for it.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result1 = self.branch1(x.to(self.device1)).to(self.device0)
        result0 = self.branch0(x.to(self.device0))
        return self.head(torch.cat([result0, result1], dim=1))


# %% wrong: synchronised_between
# Thinks that each branch has to be waited for before the next thing is launched.

from utils.observe.devices import synchronize


class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        synchronize(self.device0)
        result1 = self.branch1(x.to(self.device1))
        synchronize(self.device1)
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% wrong: value_printed_between
# Prints a value of the first result before the second branch is launched, which waits for the first.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        result0 = self.branch0(x.to(self.device0))
        print("branch0 done, mean", result0.mean().item())
        result1 = self.branch1(x.to(self.device1))
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% right: branch1_first
# Launches branch1 first, and fetches its result after branch0's launch. Prints devices, but no values.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        b = self.branch1(x.to(self.device1))
        print("b is on", b.device, tuple(b.shape))
        a = self.branch0(x.to(self.device0))
        return self.head(torch.cat((a, b.to(self.device0)), -1))


# %% right: comprehension
# Lists and three comprehensions: copy all, launch all, then fetch all. Warns when the batch is not on the CPU.

import warnings


class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.places = [device0, device1]
        self.branches = nn.ModuleList([branch0, branch1])
        for branch, place in zip(self.branches, self.places, strict=True):
            branch.to(place)
        self.last = head.to(device0)

    def forward(self, x):
        if x.device.type != "cpu":
            warnings.warn("the batch is not on the CPU", stacklevel=2)
        copies = [x.to(place) for place in self.places]
        results = [branch(copy) for branch, copy in zip(self.branches, copies, strict=True)]
        gathered = [result.to(self.device0) for result in results]
        return self.last(torch.cat(gathered, dim=1))


# %% right: copies_first
# Makes both copies of the batch before anything is launched, one from the other.

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


# %% right: hooks_move_the_batch
# Lets hooks in front of the branches move the batch, and asks head's weight for the place of the join.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

        for branch in (self.branch0, self.branch1):
            branch.register_forward_pre_hook(lambda m, inputs: inputs[0].to(next(m.parameters()).device))

    def forward(self, x):
        results = [self.branch1(x), self.branch0(x)][::-1]
        where = next(self.head.parameters()).device
        return self.head(torch.cat([r.to(where) for r in results], dim=1))


# %% right: value_printed_at_the_end
# Prints a value, but only after both branches were launched.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        there = x.to(self.device1, non_blocking=True)
        result0 = self.branch0(x.to(self.device0, non_blocking=True))
        result1 = self.branch1(there)
        print("mean of branch0", result0.mean().item())
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))


# %% wrong: first_copy_to_the_notebooks_device1
# Copies the batch first to the device1 of the notebook, so that another one gets it only when the first branch has
# been launched.

class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0 = branch0.to(device0)
        self.branch1 = branch1.to(device1)
        self.head = head.to(device0)

    def forward(self, x):
        # Both copies first: one from GPU to GPU would wait for a branch that has been launched.
        batch0, batch1 = x.to(self.device0), x.to(device1)
        result0, result1 = self.branch0(batch0), self.branch1(batch1.to(self.device1))
        return self.head(torch.cat([result0, result1.to(self.device0)], dim=1))
