# %% wrong: all_first_parts_first
# Launches all of the first part before any of the second: a copy then waits for all that device0 was given.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        hidden = [self.part0(piece) for piece in x.to(self.device0).split(size)]
        return torch.cat([self.part1(each.to(self.device1)) for each in hidden])


# %% wrong: collected_on_the_cpu
# Collects the outputs on the CPU, which waits for each, and moves them back in the end.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            output = self.part1(self.part0(piece).to(self.device1))
            outputs.append(output.cpu())
        return torch.cat(outputs).to(self.device1)


# %% wrong: detached
# Thinks that a micro-batch must be cut off from its history before it moves.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            hidden = self.part0(piece).detach().to(self.device1)
            outputs.append(self.part1(hidden))
        return torch.cat(outputs)


# %% wrong: evenly_divided
# Divides the batch as evenly as possible: 10 rows into 4, 3 and 3, where size is 4.

import math


class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        number = math.ceil(len(x) / size)
        outputs = []
        for piece in torch.tensor_split(x.to(self.device0), number):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: first_output_forgotten
# Carries one micro-batch over, as the tutorial does, and forgets the one that is left after the loop.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        pieces = iter(x.to(self.device0).split(size))
        waiting = self.part0(next(pieces)).to(self.device1)
        outputs = []
        for piece in pieces:
            outputs.append(self.part1(waiting))
            waiting = self.part0(piece).to(self.device1)
        return torch.cat(outputs) if outputs else self.part1(waiting)


# %% wrong: last_only
# Overwrites the output in each turn, so only the last micro-batch comes out.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        for piece in x.split(size):
            output = self.part1(self.part0(piece.to(self.device0)).to(self.device1))
        return output


# %% wrong: moved_from_the_cpu_only
# Moves the batch only if it is on the CPU, and takes it that it is on the first device otherwise.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        if x.device.type == "cpu":
            x = x.to(self.device0)
        outputs = []
        for piece in x.split(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: must_divide
# Computes how often size goes into the batch, and loses the rows that are left.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for number in range(len(x) // size):
            piece = x[number * size : (number + 1) * size].to(self.device0)
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: newest_first
# Puts each new output in front of the others, so the rows come out in another order.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        joined = None
        for piece in x.split(size):
            output = self.part1(self.part0(piece.to(self.device0)).to(self.device1))
            joined = output if joined is None else torch.cat([output, joined])
        return joined


# %% wrong: notebook_devices
# Uses the devices of the notebook, not those that the model was given.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(device0).split(size):
            outputs.append(self.part1(self.part0(piece).to(device1)))
        return torch.cat(outputs)


# %% wrong: one_device
# Puts both parts on the first device and moves the finished output.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device0)

    def forward(self, x, size):
        outputs = [self.part1(self.part0(piece)) for piece in x.to(self.device0).split(size)]
        return torch.cat(outputs).to(self.device1)


# %% wrong: prints_an_output
# Prints a number of each output, which waits for it.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            output = self.part1(self.part0(piece).to(self.device1))
            print("first output", output[0, 0])
            outputs.append(output)
        return torch.cat(outputs)


# %% wrong: size_is_a_number
# Takes size for the number of micro-batches.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).chunk(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.cat(outputs)


# %% wrong: stacked
# Thinks that stack joins rows: it makes a new dimension.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
        return torch.stack(outputs)


# %% wrong: stream_not_waited_for
# Copies on streams of their own, and lets nobody wait for the copy: the second part may read what is not there yet.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        gpu = torch.get_device_module(self.device0)
        giving, taking = gpu.Stream(self.device0), gpu.Stream(self.device1)
        outputs = []
        for piece in x.to(self.device0).split(size):
            hidden = self.part0(piece)
            giving.wait_stream(gpu.current_stream(self.device0))
            with gpu.stream(giving), gpu.stream(taking):
                arrived = hidden.to(self.device1, non_blocking=True)
            outputs.append(self.part1(arrived))
        return torch.cat(outputs)


# %% wrong: synchronises
# Waits for the second device in each turn, to be sure that it is done.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for piece in x.to(self.device0).split(size):
            outputs.append(self.part1(self.part0(piece).to(self.device1)))
            torch.get_device_module(self.device1).synchronize(self.device1)
        return torch.cat(outputs)


# %% wrong: synchronises_each_copy
# Thinks that Python has to wait for a copy before the second part may read it.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        gpu = torch.get_device_module(self.device0)
        outputs = []
        for piece in x.to(self.device0).split(size):
            hidden = self.part0(piece).to(self.device1)
            if self.device0.type != "cpu":
                gpu.synchronize(self.device0)  # the copy must be complete
                gpu.synchronize(self.device1)
            outputs.append(self.part1(hidden))
        return torch.cat(outputs)


# %% wrong: whole_batch
# Thinks that a split model is a pipeline already, and sends the whole batch at once.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


# %% right: carries_one_over
# Carries one micro-batch over from turn to turn, as the tutorial does.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        pieces = iter(x.to(self.device0).split(size))
        waiting = self.part0(next(pieces)).to(self.device1)
        outputs = []
        for piece in pieces:
            outputs.append(self.part1(waiting))
            waiting = self.part0(piece).to(self.device1)
        outputs.append(self.part1(waiting))
        return torch.cat(outputs)


# %% right: comprehension
# In one line, with the parts as the layers of a Sequential.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.parts = nn.Sequential(part0.to(device0), part1.to(device1))

    def forward(self, x, size):
        first, second = self.parts
        return torch.vstack([second(first(p).to(self.device1)) for p in torch.split(x.to(self.device0), size)])


# %% right: slices
# Cuts with slices, and moves each micro-batch by itself.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        outputs = []
        for start in range(0, len(x), size):
            hidden = self.part0(x[start : start + size].to(self.device0))
            outputs.append(self.part1(hidden.to(self.device1)))
        return torch.cat(outputs, dim=0)


# %% right: written_into_one_tensor
# Makes one tensor for all outputs, and writes each into its rows.

class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        result = None
        for start in range(0, x.shape[0], size):
            output = self.part1(self.part0(x[start : start + size].to(self.device0)).to(self.device1))
            if result is None:
                result = output.new_empty((x.shape[0], *output.shape[1:]))
            result[start : start + size] = output
        return result
