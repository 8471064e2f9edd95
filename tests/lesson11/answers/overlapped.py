# %% wrong: after_the_backward_pass
# All is sent in finish.


def overlapped(model):
    import torch.distributed as dist

    def finish():
        for p in model.parameters():
            dist.all_reduce(p.grad, dist.ReduceOp.AVG)

    return finish


# %% wrong: the_hook_waits
# Without async_op kernels wait for each all-reduce.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)

    def finish():
        while running:
            running.pop().wait()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: waits_at_once
# Asynchronous, and waited for in the hook.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True).wait()

    def finish():
        while running:
            running.pop().wait()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: the_sum
# Sums are not means.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        running.append(dist.all_reduce(p.grad, async_op=True))

    def finish():
        while running:
            running.pop().wait()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: calls_finish
# Returns what finish returns.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        running.append(dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True))

    def finish():
        while running:
            running.pop().wait()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish()


# %% wrong: never_waits
# The optimizer could read half of a sum.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        running.append(dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True))

    def finish():
        running.clear()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: waits_for_the_last_only
# One of six.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        running.append(dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True))

    def finish():
        running[-1].wait()
        running.clear()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: one_hook_for_all
# Sends all gradients when the first layer's is ready.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(_):
        for p in model.parameters():
            running.append(dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True))

    def finish():
        while running:
            running.pop().wait()

    first = next(model.parameters())
    first.register_post_accumulate_grad_hook(reduce)
    return finish


# %% wrong: keeps_the_handles
# In the second step it divides once more for the first step's handles.


def overlapped(model):
    import torch.distributed as dist

    running = []

    def reduce(p):
        running.append((p, dist.all_reduce(p.grad, async_op=True)))

    def finish():
        for p, work in running:
            work.wait()
            p.grad /= dist.get_world_size()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


# %% right: a_dictionary_and_a_sum
# Divides when all are there.


def overlapped(model):
    import torch.distributed as dist

    works = {}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda q: works.update({q: dist.all_reduce(q.grad, async_op=True)}))

    def finish():
        for q, work in works.items():
            work.wait()
            q.grad.div_(dist.get_world_size())
        works.clear()

    return finish
