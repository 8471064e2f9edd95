import torch


def sharded_step(copies, shards, optimizers):
    count = len(copies)
    for r, (mine, optimizer) in enumerate(zip(shards, optimizers, strict=True)):
        for owner, *same in zip(mine, *(copy.parameters() for copy in copies), strict=True):
            owner.grad = sum(p.grad.view(-1).chunk(count)[r].to(owner.device) for p in same) / count
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for r, mine in enumerate(shards):
            for owner, *same in zip(mine, *(copy.parameters() for copy in copies), strict=True):
                for p in same[:r] + same[r + 1 :]:  # its own copy has the new shard already: it is a view
                    p.view(-1).chunk(count)[r].copy_(owner)
