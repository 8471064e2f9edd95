# %% wrong: all_states_kept
# Runs a whole Adam on every device: right numbers, and every device keeps everything.

def sharded_adam(copies, lr):
    whole = [[p.detach().float().requires_grad_(p.requires_grad) for p in copy.parameters()] for copy in copies]
    optimizers = [torch.optim.Adam(mine, lr=lr) for mine in whole]

    def step():
        for group in zip(*[zip(copy.parameters(), mine) for copy, mine in zip(copies, whole)]):
            if group[0][0].grad is None:
                continue
            for (p, w), total in zip(group, all_reduce([p.grad.float() for p, _ in group])):
                w.grad = total / len(copies)
        for optimizer, mine, copy in zip(optimizers, whole, copies):
            optimizer.step()
            optimizer.zero_grad()
            for p, w in zip(copy.parameters(), mine):
                p.data.copy_(w.data)

    return step


# %% wrong: update_before_reduce
# Each owner updates with its own gradient: those of the other shares are never added.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for shard, p in zip(mine[n], every[n]):
                shard.grad = p.grad.flatten().tensor_split(count)[n].float()
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(shard.bfloat16())

    return step


# %% wrong: not_sent_back
# Every owner has its new weights, and no other device gets them.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            adams[n].step()
            adams[n].zero_grad()
            for shard, p in zip(mine[n], every[n]):
                p.data.view(-1).tensor_split(count)[n].copy_(shard)

    return step


# %% wrong: the_rest_left_out
# Cuts with n // N, so that the remainder has no owner.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]

    def part(tensor, n):
        size = tensor.numel() // count
        return tensor.view(-1)[n * size : (n + 1) * size]

    mine = [[part(p.data, n).float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                shard.grad = sum(part(own[k].grad, n).to(shard.device).float() for own in every) / count
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    part(own[k].data, n).copy_(new)

    return step


# %% wrong: whole_parameters_dealt_out
# Assigns whole parameters to the devices in turn: one of them is nearly the whole model.

def sharded_adam(copies, lr):
    groups = [group for group in zip(*[copy.parameters() for copy in copies]) if group[0].requires_grad]
    owned = [group[k % len(copies)].data.float() for k, group in enumerate(groups)]
    adams = [torch.optim.Adam([w], lr=lr) for w in owned]

    def step():
        for group, w, adam in zip(groups, owned, adams):
            w.grad = sum(p.grad.to(w.device).float() for p in group) / len(group)
            adam.step()
            adam.zero_grad()
            new = w.bfloat16()
            for p in group:
                p.data.copy_(new)

    return step


# %% wrong: new_optimizer_each_step
# Makes a new Adam in each step: its moments are lost, and the count of steps is always 1.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            torch.optim.Adam(mine[n], lr=lr).step()
            for k, shard in enumerate(mine[n]):
                shard.grad = None
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(shard.bfloat16())

    return step


# %% wrong: step_counted_for_each_device
# Counts the steps once for each device, and corrects the moments by it.

class ShardedAdam:
    def __init__(self, copies, lr):
        self.every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
        self.lr, self.steps, self.state = lr, 0, {}

    def step(self):
        count = len(self.every)
        for n, mine in enumerate(self.every):
            self.steps += 1
            for k, p in enumerate(mine):
                g = sum(q[k].grad.view(-1).tensor_split(count)[n].to(p.device).float() for q in self.every) / count
                if (n, k) not in self.state:
                    self.state[n, k] = p.data.view(-1).tensor_split(count)[n].float(), 0 * g, 0 * g
                w, m, v = self.state[n, k]
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                w -= self.lr * (m / (1 - 0.9**self.steps)) / ((v / (1 - 0.999**self.steps)).sqrt() + 1e-8)
                for q in self.every:
                    q[k].data.view(-1).tensor_split(count)[n].copy_(w.bfloat16())


def sharded_adam(copies, lr):
    return ShardedAdam(copies, lr).step


# %% wrong: everybody_adds_everything
# Adds up all gradients on all devices first, as DDP does, and then sends the weights as well.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        means = {}
        for group in zip(*every):
            for p, total in zip(group, all_reduce([p.grad.float() for p in group])):
                means[p] = total / count
        for n in range(count):
            for shard, p in zip(mine[n], every[n]):
                shard.grad = means[p].view(-1).tensor_split(count)[n]
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(new)

    return step


# %% wrong: weights_sent_in_float32
# Sends the float32 shard and lets copy_ round it where it arrives: twice the bytes.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(shard.to(own[k].device))

    return step


# %% wrong: no_copy_in_float32
# Gives PyTorch's Adam the views of the weights themselves: bfloat16 forgets small updates.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    shards = [[p.data.view(-1).tensor_split(count)[n] for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(mine, lr=lr) for mine in shards]

    def step():
        for n, adam in enumerate(adams):
            for k, shard in enumerate(shards[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device) for own in every]
                shard.grad = sum(parts) / count
            adam.step()
            adam.zero_grad()
            for k, shard in enumerate(shards[n]):
                for own in every:
                    if own[k].device != shard.device:
                        own[k].data.view(-1).tensor_split(count)[n].copy_(shard)

    return step


# %% wrong: copied_again_in_each_step
# Computes the update in float32, from the rounded weights: what the rounding took is lost in each step.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                shard.copy_(every[n][k].data.view(-1).tensor_split(count)[n])
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(new)

    return step


# %% wrong: averaged_gradients_kept
# Keeps the averaged gradients of its shard until the next step overwrites them.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            adams[n].step()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(new)

    return step


# %% wrong: sum_for_mean
# Adds the gradients and does not divide, because Adam does not care for the size. (It nearly does not.)

def sharded_adam(copies, lr):
    count = len(copies)
    every = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                shard.grad = sum(
                    own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every
                )
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(new)

    return step


# %% wrong: frozen_has_no_gradient
# Does not think of a parameter that is not trained.

def sharded_adam(copies, lr):
    count = len(copies)
    every = [list(copy.parameters()) for copy in copies]
    mine = [[p.data.flatten().tensor_split(count)[n].float() for p in own] for n, own in enumerate(every)]
    adams = [torch.optim.Adam(shards, lr=lr) for shards in mine]

    def step():
        for n in range(count):
            for k, shard in enumerate(mine[n]):
                parts = [own[k].grad.view(-1).tensor_split(count)[n].to(shard.device).float() for own in every]
                shard.grad = sum(parts) / count
            adams[n].step()
            adams[n].zero_grad()
            for k, shard in enumerate(mine[n]):
                new = shard.bfloat16()
                for own in every:
                    own[k].data.view(-1).tensor_split(count)[n].copy_(new)

    return step


# %% wrong: returns_nothing
# Makes a step at once, and returns None.

def sharded_adam(copies, lr):
    for copy in copies:
        torch.optim.Adam(copy.parameters(), lr=lr).step()


# %% wrong: adamw_decays
# Takes AdamW for Adam. Its weight decay, 0.01, is on by default.

def sharded_adam(copies, lr):
    count = len(copies)
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [[p.detach().view(-1).tensor_split(count)[n].float() for p in own] for n, own in enumerate(trained)]
    optimizers = [torch.optim.AdamW(own, lr=lr) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers)):
            for master, *parameters in zip(own, *trained):
                parts = [p.grad.view(-1).tensor_split(count)[n].to(master.device).float() for p in parameters]
                master.grad = sum(parts) / count
            optimizer.step()
            optimizer.zero_grad()
            for master, *parameters in zip(own, *trained):
                for p in parameters:
                    p.data.view(-1).tensor_split(count)[n].copy_(master.bfloat16())

    return step


# %% wrong: optimizer_on_the_cpu
# Keeps Adam and the float32 weights on the CPU, where there is more memory (which is offloading, and no shards).

def sharded_adam(copies, lr):
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [p.detach().cpu().float() for p in trained[0]]
    optimizer = torch.optim.Adam(masters, lr=lr)

    def step():
        for master, *parameters in zip(masters, *trained):
            master.grad = sum(p.grad.cpu().float() for p in parameters) / len(parameters)
        optimizer.step()
        optimizer.zero_grad()
        for master, *parameters in zip(masters, *trained):
            for p in parameters:
                p.data.copy_(master.bfloat16())

    return step


# %% wrong: adam_without_its_lr
# Makes the optimizers without lr, which Adam then takes from its own defaults.

def sharded_adam(copies, lr):
    count = len(copies)
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [[p.detach().view(-1).tensor_split(count)[n].float() for p in own] for n, own in enumerate(trained)]
    optimizers = [torch.optim.Adam(own) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers)):
            for master, *parameters in zip(own, *trained):
                parts = [p.grad.view(-1).tensor_split(count)[n].to(master.device).float() for p in parameters]
                master.grad = sum(parts) / count
            optimizer.step()
            optimizer.zero_grad()
            for master, *parameters in zip(own, *trained):
                for p in parameters:
                    p.data.view(-1).tensor_split(count)[n].copy_(master.bfloat16())

    return step


# %% wrong: added_up_in_bfloat16
# Adds up the gradients as they come, in bfloat16, and makes a float32 of the sum.

def sharded_adam(copies, lr):
    count = len(copies)
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [[p.detach().view(-1).tensor_split(count)[n].float() for p in own] for n, own in enumerate(trained)]
    optimizers = [torch.optim.Adam(own, lr=lr) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers)):
            for master, *parameters in zip(own, *trained):
                parts = [p.grad.view(-1).tensor_split(count)[n].to(master.device) for p in parameters]
                master.grad = sum(parts).float() / count
            optimizer.step()
            optimizer.zero_grad()
            for master, *parameters in zip(own, *trained):
                for p in parameters:
                    p.data.view(-1).tensor_split(count)[n].copy_(master.bfloat16())

    return step


# %% wrong: sum_rounded_once
# Lets PyTorch add up the bfloat16 gradients, which rounds their sum once.

def sharded_adam(copies, lr):
    count = len(copies)
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [[p.detach().view(-1).tensor_split(count)[n].float() for p in own] for n, own in enumerate(trained)]
    optimizers = [torch.optim.Adam(own, lr=lr) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers)):
            for master, *parameters in zip(own, *trained):
                parts = [p.grad.view(-1).tensor_split(count)[n].to(master.device) for p in parameters]
                master.grad = (torch.stack(parts).sum(0) / count).float()
            optimizer.step()
            optimizer.zero_grad()
            for master, *parameters in zip(own, *trained):
                for p in parameters:
                    p.data.view(-1).tensor_split(count)[n].copy_(master.bfloat16())

    return step


# %% right: torchs_adam_on_float32_shards
# PyTorch's Adam has the float32 shards; gradients are added by their owner, and rounded weights go out.

def sharded_adam(copies, lr):
    count = len(copies)
    models = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]

    def shard(tensor, n):
        return tensor.view(-1).tensor_split(count)[n]

    masters = [[shard(p.data, n).float() for p in model] for n, model in enumerate(models)]
    optimizers = [torch.optim.Adam(own, lr=lr) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers, strict=True)):
            for k, master in enumerate(own):
                parts = [shard(model[k].grad, n).to(master.device) for model in models]
                master.grad = torch.stack(parts).float().mean(0)
            optimizer.step()
            optimizer.zero_grad()
            for k, master in enumerate(own):
                rounded = master.bfloat16()
                for model in models:
                    shard(model[k].data, n).copy_(rounded)

    return step


# %% right: adam_by_hand
# Writes Adam's formulas for a shard at a time, and adds up in bfloat16 before it goes on in float32.

class ShardedAdam:
    def __init__(self, copies, lr, betas=(0.9, 0.999), eps=1e-8):
        self.copies, self.lr, self.betas, self.eps, self.t = copies, lr, betas, eps, 0
        self.state = {}

    @torch.no_grad()
    def step(self):
        self.t += 1
        number = len(self.copies)
        for k, group in enumerate(zip(*(copy.parameters() for copy in self.copies), strict=True)):
            if group[0].grad is None:
                continue
            grads = [p.grad.flatten().tensor_split(number) for p in group]
            for n, owner in enumerate(group):
                g = grads[n][n].float()
                for m in range(number):
                    if m != n:
                        g += grads[m][n].to(owner.device)
                g /= number
                mine = owner.view(-1).tensor_split(number)[n]
                if (n, k) not in self.state:
                    self.state[n, k] = mine.float(), torch.zeros_like(g), torch.zeros_like(g)
                weights, first, second = self.state[n, k]
                b1, b2 = self.betas
                first.lerp_(g, 1 - b1)
                second.mul_(b2).addcmul_(g, g, value=1 - b2)
                change = first / (1 - b1**self.t) / ((second / (1 - b2**self.t)).sqrt() + self.eps)
                weights.sub_(change, alpha=self.lr)
                mine.copy_(weights)
                for p in group:
                    if p is not owner:
                        p.view(-1).tensor_split(number)[n].copy_(mine)


def sharded_adam(copies, lr):
    optimizer = ShardedAdam(copies, lr)
    return optimizer.step


# %% right: one_flat_shard
# Concatenates all parameters, and gives each device one piece of the whole, which can end inside a parameter.

def sharded_adam(copies, lr):
    models = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    count = len(models)
    masters = [
        nn.Parameter(torch.cat([p.detach().flatten() for p in own]).tensor_split(count)[n].float())
        for n, own in enumerate(models)
    ]
    adams = [torch.optim.Adam([master], lr=lr) for master in masters]

    @torch.no_grad()
    def step():
        pieces = [torch.cat([p.grad.flatten() for p in own]).tensor_split(count) for own in models]
        for n, (master, adam) in enumerate(zip(masters, adams)):
            master.grad = sum(each[n].to(master.device).float() for each in pieces) / count
            adam.step()
            adam.zero_grad()
        rounded = [master.bfloat16() for master in masters]
        for own in models:
            flat = torch.cat([each.to(own[0].device) for each in rounded])
            for p, new in zip(own, flat.split([p.numel() for p in own])):
                p.copy_(new.view(p.shape))

    return step


# %% right: chunks_and_lists
# Cuts with chunk, which gives fewer pieces than devices where there are few numbers; the owners' work in one loop.

def sharded_adam(copies, lr):
    jobs = []  # owner's float32 shard, the same place in all copies, what PyTorch's Adam holds of it
    for parameters in zip(*(copy.parameters() for copy in copies)):
        if not parameters[0].requires_grad:
            continue
        size = -(-parameters[0].numel() // len(copies))
        for n, p in enumerate(parameters):
            where = slice(n * size, min((n + 1) * size, p.numel()))
            if where.start < where.stop:
                master = nn.Parameter(p.detach().flatten()[where].to(torch.float32))
                jobs.append((master, parameters, where, torch.optim.Adam([master], lr)))

    def step():
        for master, parameters, where, adam in jobs:
            total = torch.zeros_like(master)
            for p in parameters:
                total += p.grad.flatten()[where].to(master.device)
            master.grad = total.div_(len(parameters))
            adam.step()
            master.grad = None
            new = master.detach().to(parameters[0].dtype)
            for p in parameters:
                p.data.view(-1)[where] = new.to(p.device)

    return step


# %% right: divided_first_and_added_backwards
# Divides each gradient before it adds them, from the last copy to the first, with one function for all.

def sharded_adam(copies, lr):
    count = len(copies)
    trained = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]
    masters = [[p.detach().view(-1).tensor_split(count)[n].float() for p in own] for n, own in enumerate(trained)]
    optimizers = [torch.optim.Adam(own, lr=lr) for own in masters]

    def step():
        for n, (own, optimizer) in enumerate(zip(masters, optimizers)):
            for master, *parameters in zip(own, *trained):
                parts = [p.grad.view(-1).tensor_split(count)[n].to(master.device).float() for p in parameters]
                master.grad = torch.stack([part / count for part in reversed(parts)]).sum(0)
            optimizer.step()
            optimizer.zero_grad()
            for master, *parameters in zip(own, *trained):
                for p in parameters:
                    p.data.view(-1).tensor_split(count)[n].copy_(master.bfloat16())

    return step


# %% wrong: powers_of_two
# Cuts into the next power of two of shards, so that with three devices the last shard has no owner.

def sharded_adam(copies, lr):
    copies = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]

    def shard(tensor, owner):
        return tensor.view(-1).tensor_split(1 << (len(copies) - 1).bit_length())[owner]

    owned = [[shard(p.data, owner).float() for p in own] for owner, own in enumerate(copies)]
    optimizers = [torch.optim.Adam(shards, lr=lr) for shards in owned]

    def step():
        for owner, (shards, optimizer) in enumerate(zip(owned, optimizers, strict=True)):
            for mine, *parameters in zip(shards, *copies, strict=True):
                arrived = [shard(p.grad, owner).to(mine.device) for p in parameters]
                mine.grad = sum(part.float() for part in arrived) / len(copies)
            optimizer.step()
            optimizer.zero_grad()
            for mine, *parameters in zip(shards, *copies, strict=True):
                rounded = mine.bfloat16()
                for p in parameters:
                    shard(p.data, owner).copy_(rounded)

    return step


# %% wrong: whole_where_it_does_not_divide
# Shards what divides by the number of devices, and leaves every other parameter to the first device.

def sharded_adam(copies, lr):
    copies = [[p for p in copy.parameters() if p.requires_grad] for copy in copies]

    def shard(tensor, owner):
        flat = tensor.view(-1)
        if len(flat) % len(copies):
            return flat if owner == 0 else flat[:0]
        return flat.tensor_split(len(copies))[owner]

    owned = [[shard(p.data, owner).float() for p in own] for owner, own in enumerate(copies)]
    optimizers = [torch.optim.Adam(shards, lr=lr) for shards in owned]

    def step():
        for owner, (shards, optimizer) in enumerate(zip(owned, optimizers, strict=True)):
            for mine, *parameters in zip(shards, *copies, strict=True):
                arrived = [shard(p.grad, owner).to(mine.device) for p in parameters]
                mine.grad = sum(part.float() for part in arrived) / len(copies)
            optimizer.step()
            optimizer.zero_grad()
            for mine, *parameters in zip(shards, *copies, strict=True):
                rounded = mine.bfloat16()
                for p in parameters:
                    shard(p.data, owner).copy_(rounded)

    return step
