"""Collects the parameters with a Sequential, and enumerates the parts."""


def train(preprocess, parts, places, loss_fn, batches, lr):
    chain = nn.Sequential(*parts)
    for number, part in enumerate(chain):
        part.to(places[number])
    optimizer = torch.optim.SGD(chain.parameters(), lr=lr, momentum=0.9, foreach=False)
    losses = []
    chain.train()
    for raw, y in batches:
        optimizer.zero_grad()
        x = preprocess(raw)
        for number in range(len(chain)):
            x = chain[number](x.to(places[number]))
        y = y.to(places[-1])
        loss = loss_fn(x, y)
        print(f"loss {loss.item():.4f}")
        loss.backward()
        optimizer.step()
        losses += [float(loss)]
    return losses
