# %% wrong: all_states_kept
# Runs a whole Adam on every device: right numbers, and every device keeps everything.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = copies
        self.optimizers = [torch.optim.Adam(copy.parameters(), lr=lr) for copy in copies]

    def step(self):
        for parameters in zip(*[copy.parameters() for copy in self.copies]):
            if parameters[0].grad is None:
                continue
            for p, total in zip(parameters, all_reduce([p.grad for p in parameters])):
                p.grad = total / len(self.copies)
        for optimizer in self.optimizers:
            optimizer.step()


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: update_before_reduce
# Each owner updates with its own gradient: those of the other shares are never added.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = copies
        self.shards, self.optimizers = [], []
        for n, copy in enumerate(copies):
            shards = [p.data.view(-1).tensor_split(len(copies))[n] for p in copy.parameters()]
            self.shards.append(shards)
            self.optimizers.append(torch.optim.Adam(shards, lr=lr))

    def step(self):
        for n, copy in enumerate(self.copies):
            for shard, p in zip(self.shards[n], copy.parameters()):
                shard.grad = None if p.grad is None else p.grad.view(-1).tensor_split(len(self.copies))[n]
            self.optimizers[n].step()
            for shard in self.shards[n]:
                shard.grad = None
        for copy in self.copies:
            for m, mine in enumerate(self.shards):
                for shard, p in zip(mine, copy.parameters()):
                    p.data.view(-1).tensor_split(len(self.copies))[m].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: not_sent_back
# Every owner has its new weights, and nobody else gets them.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = copies
        self.shards, self.optimizers = [], []
        for n, copy in enumerate(copies):
            shards = [p.data.view(-1).tensor_split(len(copies))[n] for p in copy.parameters()]
            self.shards.append(shards)
            self.optimizers.append(torch.optim.Adam(shards, lr=lr))

    def step(self):
        count = len(self.copies)
        for n, copy in enumerate(self.copies):
            for k, shard in enumerate(self.shards[n]):
                grads = [list(c.parameters())[k].grad for c in self.copies]
                if grads[0] is None:
                    continue
                parts = [g.view(-1).tensor_split(count)[n].to(shard.device) for g in grads]
                shard.grad = sum(parts) / count
            self.optimizers[n].step()
            self.optimizers[n].zero_grad()


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: the_rest_left_out
# Cuts with n // P, so that the numbers left over have no owner.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = copies
        self.shards, self.optimizers = [], []
        for n, copy in enumerate(copies):
            shards = [self.part(p.data, n) for p in copy.parameters()]
            self.shards.append(shards)
            self.optimizers.append(torch.optim.Adam(shards, lr=lr))

    def part(self, tensor, n):
        size = tensor.numel() // len(self.copies)
        return tensor.view(-1)[n * size : (n + 1) * size]

    def step(self):
        all_parameters = [list(copy.parameters()) for copy in self.copies]
        for n, shards in enumerate(self.shards):
            for k, shard in enumerate(shards):
                grads = [parameters[k].grad for parameters in all_parameters]
                if grads[0] is not None:
                    shard.grad = sum(self.part(g, n).to(shard.device) for g in grads) / len(grads)
            self.optimizers[n].step()
            self.optimizers[n].zero_grad()
            for k, shard in enumerate(shards):
                for parameters in all_parameters:
                    if parameters[k].device != shard.device:
                        self.part(parameters[k].data, n).copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: whole_parameters_dealt_out
# Gives whole parameters away in turn: one of them is nearly the whole model.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = [list(copy.parameters()) for copy in copies]
        self.optimizers = [
            torch.optim.Adam(parameters[n :: len(copies)], lr=lr) for n, parameters in enumerate(self.copies)
        ]

    def step(self):
        count = len(self.copies)
        for k, group in enumerate(zip(*self.copies)):
            owner = group[k % count]
            if owner.grad is not None:
                owner.grad = sum(p.grad.to(owner.device) for p in group) / count
        for optimizer in self.optimizers:
            optimizer.step()
        for k, group in enumerate(zip(*self.copies)):
            for p in group:
                if p is not group[k % count]:
                    p.data.copy_(group[k % count].data)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: new_optimizer_each_step
# Makes Adam anew in each step: no moment is ever remembered, and the count of steps is always 1.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies, self.lr = copies, lr

    def step(self):
        count = len(self.copies)
        every = [list(copy.parameters()) for copy in self.copies]
        for n, mine in enumerate(every):
            shards = []
            for k, p in enumerate(mine):
                if p.grad is None:
                    continue
                shard = p.data.view(-1).tensor_split(count)[n]
                shard.grad = sum(q[k].grad.view(-1).tensor_split(count)[n].to(p.device) for q in every) / count
                shards.append((k, shard))
            torch.optim.Adam([shard for _, shard in shards], lr=self.lr).step()
            for k, shard in shards:
                for other in every:
                    if other is not mine:
                        other[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: step_counted_for_each_device
# Counts the steps once for each device, and corrects the moments by it.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [list(copy.parameters()) for copy in copies]
        self.lr, self.steps, self.state = lr, 0, {}

    def step(self):
        count = len(self.every)
        for n, mine in enumerate(self.every):
            self.steps += 1
            for k, p in enumerate(mine):
                if p.grad is None:
                    continue
                g = sum(q[k].grad.view(-1).tensor_split(count)[n].to(p.device) for q in self.every) / count
                m, v = self.state.setdefault((n, k), (torch.zeros_like(g), torch.zeros_like(g)))
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                shard = p.data.view(-1).tensor_split(count)[n]
                up = m / (1 - 0.9**self.steps)
                down = (v / (1 - 0.999**self.steps)).sqrt() + 1e-8
                shard.sub_(self.lr * up / down)
                for q in self.every:
                    q[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: everybody_adds_everything
# Adds up all gradients on all devices first, as DDP does, and then sends the weights as well.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [list(copy.parameters()) for copy in copies]
        self.shards = [
            [p.data.view(-1).tensor_split(len(copies))[n] for p in mine] for n, mine in enumerate(self.every)
        ]
        self.optimizers = [torch.optim.Adam(shards, lr=lr) for shards in self.shards]

    def step(self):
        count = len(self.every)
        for group in zip(*self.every):
            if group[0].grad is not None:
                for p, total in zip(group, all_reduce([p.grad for p in group])):
                    p.grad = total / count
        for n, (mine, shards) in enumerate(zip(self.every, self.shards)):
            for p, shard in zip(mine, shards):
                shard.grad = None if p.grad is None else p.grad.view(-1).tensor_split(count)[n]
            self.optimizers[n].step()
            self.optimizers[n].zero_grad()
            for k, shard in enumerate(shards):
                for other in self.every:
                    if other is not mine and mine[k].grad is not None:
                        other[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: averaged_gradients_kept
# Keeps the averaged gradients of its shard until the next step overwrites them.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [list(copy.parameters()) for copy in copies]
        self.shards = [
            [p.data.view(-1).tensor_split(len(copies))[n] for p in mine] for n, mine in enumerate(self.every)
        ]
        self.optimizers = [torch.optim.Adam(shards, lr=lr) for shards in self.shards]

    def step(self):
        count = len(self.every)
        for n, shards in enumerate(self.shards):
            for k, shard in enumerate(shards):
                if self.every[0][k].grad is not None:
                    shard.grad = sum(
                        p[k].grad.view(-1).tensor_split(count)[n].to(shard.device) for p in self.every
                    ) / count
            self.optimizers[n].step()
            for k, shard in enumerate(shards):
                for m, p in enumerate(self.every):
                    if m != n:
                        p[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: sum_for_mean
# Adds the gradients and does not divide, because Adam does not care for the size. (It nearly does not.)

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [list(copy.parameters()) for copy in copies]
        self.shards = [
            [p.data.view(-1).tensor_split(len(copies))[n] for p in mine] for n, mine in enumerate(self.every)
        ]
        self.optimizers = [torch.optim.Adam(shards, lr=lr) for shards in self.shards]

    def step(self):
        count = len(self.every)
        for n, shards in enumerate(self.shards):
            for k, shard in enumerate(shards):
                if self.every[0][k].grad is not None:
                    shard.grad = sum(p[k].grad.view(-1).tensor_split(count)[n].to(shard.device) for p in self.every)
            self.optimizers[n].step()
            self.optimizers[n].zero_grad()
            for k, shard in enumerate(shards):
                for m, p in enumerate(self.every):
                    if m != n:
                        p[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: frozen_has_no_gradient
# Does not think of a parameter that is not trained.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [list(copy.parameters()) for copy in copies]
        self.shards = [
            [p.data.view(-1).tensor_split(len(copies))[n] for p in mine] for n, mine in enumerate(self.every)
        ]
        self.optimizers = [torch.optim.Adam(shards, lr=lr) for shards in self.shards]

    def step(self):
        count = len(self.every)
        for n, shards in enumerate(self.shards):
            for k, shard in enumerate(shards):
                parts = [p[k].grad.view(-1).tensor_split(count)[n].to(shard.device) for p in self.every]
                shard.grad = sum(parts) / count
            self.optimizers[n].step()
            self.optimizers[n].zero_grad()
            for k, shard in enumerate(shards):
                for m, p in enumerate(self.every):
                    if m != n:
                        p[k].data.view(-1).tensor_split(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% right: views_and_torchs_adam
# A shard is a view of the owner's own weights, which PyTorch's Adam changes in place.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
        self.shards = [[self.shard(p.data, n) for p in mine] for n, mine in enumerate(self.copies)]
        self.optimizers = [torch.optim.Adam(shards, lr=lr) for shards in self.shards]

    def shard(self, tensor, owner):
        return tensor.view(-1).tensor_split(len(self.copies))[owner]

    def step(self):
        for owner, (shards, optimizer) in enumerate(zip(self.shards, self.optimizers, strict=True)):
            for shard, *parameters in zip(shards, *self.copies, strict=True):
                parts = [self.shard(p.grad, owner).to(shard.device) for p in parameters]
                shard.grad = torch.stack(parts).mean(0)
            optimizer.step()
            optimizer.zero_grad()
            for shard, *parameters in zip(shards, *self.copies, strict=True):
                for p in parameters:
                    if p.device != shard.device:
                        self.shard(p.data, owner).copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% right: adam_by_hand
# Writes Adam's formulas for a shard at a time, with the moments in lists.

class ShardedAdam:
    def __init__(self, copies, lr, betas=(0.9, 0.999), eps=1e-8):
        self.copies, self.lr, self.betas, self.eps, self.t = copies, lr, betas, eps, 0
        self.moments = {}

    @torch.no_grad()
    def step(self):
        self.t += 1
        number = len(self.copies)
        for k, group in enumerate(zip(*(copy.parameters() for copy in self.copies), strict=True)):
            if group[0].grad is None:
                continue
            grads = [p.grad.flatten().tensor_split(number) for p in group]
            for n, owner in enumerate(group):
                g = grads[n][n].clone()
                for m in range(number):
                    if m != n:
                        g += grads[m][n].to(owner.device)
                g /= number
                if (n, k) not in self.moments:
                    self.moments[n, k] = torch.zeros_like(g), torch.zeros_like(g)
                first, second = self.moments[n, k]
                b1, b2 = self.betas
                first.lerp_(g, 1 - b1)
                second.mul_(b2).addcmul_(g, g, value=1 - b2)
                change = first / (1 - b1**self.t) / ((second / (1 - b2**self.t)).sqrt() + self.eps)
                mine = owner.view(-1).tensor_split(number)[n]
                mine.sub_(change, alpha=self.lr)
                for p in group:
                    if p is not owner:
                        p.view(-1).tensor_split(number)[n].copy_(mine)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% right: one_flat_shard
# Puts all parameters behind one another, and gives each device one piece of the whole, which ends anywhere.

from torch.nn.utils import parameters_to_vector, vector_to_parameters


class ShardedAdam:
    def __init__(self, copies, lr):
        self.copies = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
        self.lr, self.t = lr, 0
        self.first = [0.0] * len(copies)
        self.second = [0.0] * len(copies)

    @torch.no_grad()
    def step(self):
        count = len(self.copies)
        self.t += 1
        pieces = [torch.cat([p.grad.flatten() for p in mine]).tensor_split(count) for mine in self.copies]
        weights = [parameters_to_vector(mine) for mine in self.copies]
        for n, mine in enumerate(weights):
            g = sum(each[n].to(mine.device) for each in pieces) / count
            self.first[n] = 0.9 * self.first[n] + 0.1 * g
            self.second[n] = 0.999 * self.second[n] + 0.001 * g * g
            bottom = (self.second[n] / (1 - 0.999**self.t)).sqrt() + 1e-8
            new = mine.tensor_split(count)[n] - self.lr * self.first[n] / (1 - 0.9**self.t) / bottom
            for other in weights:
                other.tensor_split(count)[n].copy_(new)
        for vector, mine in zip(weights, self.copies):
            vector_to_parameters(vector.clone(), mine)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% right: shards_made_for_a_moment
# Holds nothing but torch.optim.Adam for each device, whose parameters' memory is swapped in for the step.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.models = [list(m.parameters()) for m in copies]
        self.own = []
        for n, model in enumerate(self.models):
            self.own.append([nn.Parameter(p.data.flatten().chunk(len(copies))[n]) if self.has(p, n) else None for p in model])
        self.adams = [torch.optim.Adam([s for s in own if s is not None], lr=lr) for own in self.own]

    def has(self, p, n):
        return p.requires_grad and n < len(p.data.flatten().chunk(len(self.models)))

    @torch.no_grad()
    def step(self):
        count = len(self.models)
        for n, own in enumerate(self.own):
            for k, shard in enumerate(own):
                if shard is not None:
                    shard.grad = sum(m[k].grad.flatten().chunk(count)[n].to(shard.device) for m in self.models).div(count)
            self.adams[n].step()
            self.adams[n].zero_grad(set_to_none=True)
        for n, own in enumerate(self.own):
            for k, shard in enumerate(own):
                for m in self.models if shard is not None else ():
                    if m[k].device != shard.device:
                        m[k].view(-1).chunk(count)[n].copy_(shard)


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step
