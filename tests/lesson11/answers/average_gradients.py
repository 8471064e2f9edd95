# %% wrong: adds_and_does_not_divide
# "All gradients together": the sum. With two copies each step is twice as long.


def average_gradients(copies):
    for first, *others in zip(*(one.parameters() for one in copies)):
        for other in others:
            first.grad += other.grad.to(first.device)
        for other in others:
            other.grad = first.grad.to(other.device)


# %% wrong: only_the_first_gets_it
# The mean is made, and nobody sends it back.


def average_gradients(copies):
    for grads in zip(*(one.parameters() for one in copies)):
        mean = sum(p.grad.to(grads[0].device) for p in grads) / len(copies)
        grads[0].grad = mean


# %% wrong: halves_each_time
# Right for two copies: a mean of means for three.


def average_gradients(copies):
    for first, *others in zip(*(one.parameters() for one in copies)):
        mean = first.grad
        for other in others:
            mean = (mean + other.grad.to(mean.device)) / 2
        first.grad.copy_(mean)
        for other in others:
            other.grad.copy_(mean)


# %% wrong: averages_the_weights
# Averages what is equal already.


def average_gradients(copies):
    import torch

    with torch.no_grad():
        for first, *others in zip(*(one.parameters() for one in copies)):
            for other in others:
                first += other.to(first.device)
            first /= len(copies)
            for other in others:
                other.copy_(first)


# %% wrong: adds_over_two_devices
# Forgets that the gradients are on two devices.


def average_gradients(copies):
    for same in zip(*(one.parameters() for one in copies)):
        mean = sum(p.grad for p in same) / len(copies)
        for p in same:
            p.grad = mean.to(p.device)


# %% wrong: two_copies_only
# Takes the course at its word: two GPUs.


def average_gradients(copies):
    for p, q in zip(copies[0].parameters(), copies[1].parameters()):
        mean = (p.grad + q.grad.to(p.device)) / 2
        p.grad.copy_(mean)
        q.grad.copy_(mean)


# %% right: by_name_and_stacked
# Finds what belongs together by name, and lets stack and mean do the sum.


def average_gradients(copies):
    import torch

    named = [dict(one.named_parameters()) for one in copies]
    for name, first in named[0].items():
        mean = torch.stack([each[name].grad.to(first.device) for each in named]).mean(dim=0)
        for each in named:
            each[name].grad = mean.to(each[name].device)


# %% right: through_the_cpu
# Adds on the CPU, which is slow and right.


def average_gradients(copies):
    for same in zip(*[list(one.parameters()) for one in copies]):
        total = same[0].grad.cpu() * 0
        for p in same:
            total = total + p.grad.cpu()
        for p in same:
            p.grad.copy_(total / len(same))


# %% right: flat_at_once
# One long vector a copy, one message each way.


def average_gradients(copies):
    from torch.nn.utils import parameters_to_vector

    home = next(copies[0].parameters()).device
    flat = sum(parameters_to_vector([p.grad for p in one.parameters()]).to(home) for one in copies) / len(copies)
    for one in copies:
        begin = 0
        for p in one.parameters():
            p.grad.copy_(flat[begin : begin + p.numel()].view_as(p))
            begin += p.numel()
