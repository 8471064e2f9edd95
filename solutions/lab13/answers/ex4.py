# %% wrong: each_action_sends_at_once
# Does the list of 1F1B action by action: receives what it needs, computes, sends. Where sends wait, two neighbors
# send to each other and neither receives.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    warm_up = min(ranks - rank - 1, len(rows))
    flying, loss, done = [], 0.0, 0
    xs = x.split(rows) if rank == 0 else None
    ys = y.split(rows) if rank == ranks - 1 else None

    def forward(k):
        if rank == 0:
            inputs = xs[k]
        else:
            inputs = torch.zeros(rows[k], width)
            recv(inputs, rank - 1)
            inputs.requires_grad_()
        output = part(inputs)
        if rank == ranks - 1:
            output = loss_fn(output, ys[k]) * rows[k] / sum(rows)
        else:
            send(output.detach(), rank + 1)
        flying.append((inputs, output))

    def backward():
        nonlocal loss
        inputs, output = flying.pop(0)
        if rank == ranks - 1:
            loss += output.item()
            output.backward()
        else:
            gradient = torch.zeros_like(output)
            recv(gradient, rank + 1)
            output.backward(gradient)
        if rank > 0:
            send(inputs.grad, rank - 1)

    for k in range(warm_up):
        forward(k)
    for k in range(warm_up, len(rows)):
        forward(k)
        backward()
    while flying:
        backward()
    return loss if rank == ranks - 1 else None


# %% wrong: all_forward_first
# Sends all micro-batches forward before any goes backward, as GPipe does: right gradients, and too much in flight.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    total, flying = 0.0, []
    first, last = rank == 0, rank == ranks - 1
    for k, count in enumerate(rows):
        if first:
            inputs = x.split(rows)[k]
        else:
            inputs = torch.empty(count, width)
            recv(inputs, rank - 1)
            inputs.requires_grad_(True)
        output = part(inputs)
        if last:
            output = loss_fn(output, y.split(rows)[k]) * count / sum(rows)
            total += output.item()
        else:
            send(output.detach(), rank + 1)
        flying.append((inputs, output))
    for inputs, output in flying:
        if last:
            output.backward()
        else:
            gradient = torch.empty_like(output)
            recv(gradient, rank + 1)
            output.backward(gradient)
        if not first:
            send(inputs.grad, rank - 1)
    return total if last else None


# %% wrong: one_at_a_time
# Sends one micro-batch there and back before the next begins: nothing can get stuck, and the ranks take turns.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    total = 0.0
    for k, count in enumerate(rows):
        if rank == 0:
            inputs = x.split(rows)[k]
        else:
            inputs = torch.empty(count, width)
            recv(inputs, rank - 1)
            inputs.requires_grad_()
        output = part(inputs)
        if rank == ranks - 1:
            loss = loss_fn(output, y.split(rows)[k]) * count / sum(rows)
            total += loss.item()
            loss.backward()
        else:
            send(output.detach(), rank + 1)
            gradient = torch.empty(output.shape)
            recv(gradient, rank + 1)
            output.backward(gradient)
        if rank > 0:
            send(inputs.grad, rank - 1)
    return total if rank == ranks - 1 else None


# %% wrong: all_micro_batches_alike
# Makes a buffer for as many samples as the first micro-batch has, and the last one is smaller.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    limit, flying, total = min(ranks - rank, len(rows)), [], 0.0

    def receive(k):
        if first:
            return x.split(rows)[k]
        room = torch.empty(rows[0], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    inputs = receive(0)
    for k in range(len(rows) + limit - 1):
        if k < len(rows):
            output = part(inputs)
            if last:
                output = loss_fn(output, y.split(rows)[k]) * rows[k] / sum(rows)
                total += output.item()
            else:
                send(output.detach(), rank + 1)
            flying.append((inputs, output))
        back = None
        if k >= limit - 1:
            old, output = flying.pop(0)
            gradient = None
            if not last:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
            output.backward(gradient)
            back = old.grad
        if k + 1 < len(rows):
            inputs = receive(k + 1)
        if back is not None and not first:
            send(back, rank - 1)
    return total if last else None


# %% wrong: nothing_goes_back
# Sends the outputs on and runs backward on the last rank: autograd does not cross to another rank by itself.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    total = 0.0
    for k, count in enumerate(rows):
        if rank == 0:
            inputs = x.split(rows)[k]
        else:
            inputs = torch.empty(count, width)
            recv(inputs, rank - 1)
        output = part(inputs)
        if rank < ranks - 1:
            send(output, rank + 1)
        else:
            loss = loss_fn(output, y.split(rows)[k]) * count / sum(rows)
            loss.backward()
            total += loss.item()
    if rank == ranks - 1:
        return total


# %% wrong: divides_by_the_count
# Divides each loss by the number of micro-batches, as if all had as many samples.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    limit, flying, total = min(ranks - rank, len(rows)), [], 0.0

    def receive(k):
        if first:
            return x.split(rows)[k]
        room = torch.empty(rows[k], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    inputs = receive(0)
    for k in range(len(rows) + limit - 1):
        if k < len(rows):
            output = part(inputs)
            if last:
                output = loss_fn(output, y.split(rows)[k]) / len(rows)
                total += output.item()
            else:
                send(output.detach(), rank + 1)
            flying.append((inputs, output))
        back = None
        if k >= limit - 1:
            old, output = flying.pop(0)
            gradient = None
            if not last:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
            output.backward(gradient)
            back = old.grad
        if k + 1 < len(rows):
            inputs = receive(k + 1)
        if back is not None and not first:
            send(back, rank - 1)
    return total if last else None


# %% wrong: sum_of_means
# Adds up the means of the micro-batches.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    limit, flying, total = min(ranks - rank, len(rows)), [], 0.0

    def receive(k):
        if first:
            return x.split(rows)[k]
        room = torch.empty(rows[k], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    inputs = receive(0)
    for k in range(len(rows) + limit - 1):
        if k < len(rows):
            output = part(inputs)
            if last:
                output = loss_fn(output, y.split(rows)[k])
                total += output.item()
            else:
                send(output.detach(), rank + 1)
            flying.append((inputs, output))
        back = None
        if k >= limit - 1:
            old, output = flying.pop(0)
            gradient = None
            if not last:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
            output.backward(gradient)
            back = old.grad
        if k + 1 < len(rows):
            inputs = receive(k + 1)
        if back is not None and not first:
            send(back, rank - 1)
    return total if last else None


# %% wrong: newest_goes_back_first
# Keeps what is in flight on a stack, so a gradient meets another micro-batch's activations.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    limit, flying, total = min(ranks - rank, len(rows)), [], 0.0
    for k in range(len(rows) + limit - 1):
        if k < len(rows):
            inputs = x.split(rows)[k] if first else torch.empty(rows[k], width)
            if not first:
                recv(inputs, rank - 1)
                inputs.requires_grad_()
            output = part(inputs)
            if last:
                output = loss_fn(output, y.split(rows)[k]) * rows[k] / sum(rows)
                total += output.item()
            else:
                send(output.detach(), rank + 1)
            flying.append((inputs, output))
        if k >= limit - 1:
            inputs, output = flying.pop()
            gradient = None
            if not last:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
            output.backward(gradient)
            if not first:
                send(inputs.grad, rank - 1)
    return total if last else None


# %% wrong: ends_with_its_forward_passes
# The first rank is done when it has sent everything on, and does not wait for gradients that come later.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    warm, flying, total = ranks - rank - 1, [], 0.0
    for k, count in enumerate(rows):
        if rank == 0:
            inputs = x.split(rows)[k]
        else:
            inputs = torch.empty(count, width)
            recv(inputs, rank - 1)
            inputs.requires_grad_()
        output = part(inputs)
        if rank == ranks - 1:
            output = loss_fn(output, y.split(rows)[k]) * count / sum(rows)
            total += output.item()
        else:
            send(output.detach(), rank + 1)
        flying.append((inputs, output))
        if k >= warm:
            inputs, output = flying.pop(0)
            if rank == ranks - 1:
                output.backward()
            else:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
                output.backward(gradient)
            if rank > 0:
                send(inputs.grad, rank - 1)
    return total if rank == ranks - 1 else None


# %% wrong: every_rank_has_the_loss
# Computes a loss on every rank, from whatever it has.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    limit, flying, total = min(ranks - rank, len(rows)), [], 0.0
    inputs = None
    for k in range(len(rows) + limit - 1):
        if k < len(rows):
            if first:
                inputs = x.split(rows)[k]
            elif k == 0:
                inputs = torch.empty(rows[0], width)
                recv(inputs, rank - 1)
                inputs.requires_grad_()
            output = part(inputs)
            if last:
                output = loss_fn(output, y.split(rows)[k]) * rows[k] / sum(rows)
            else:
                send(output.detach(), rank + 1)
            total += output.mean().item()
            flying.append((inputs, output))
        back = None
        if k >= limit - 1:
            old, output = flying.pop(0)
            gradient = None
            if not last:
                gradient = torch.empty_like(output)
                recv(gradient, rank + 1)
            output.backward(gradient)
            back = old.grad
        if k + 1 < len(rows) and not first:
            inputs = torch.empty(rows[k + 1], width)
            recv(inputs, rank - 1)
            inputs.requires_grad_()
        if back is not None and not first:
            send(back, rank - 1)
    return total


# %% wrong: odd_ranks_receive_first
# Where two neighbors have something for each other, even ranks send first and odd ones receive first. With fewer
# micro-batches than ranks an odd rank then waits for a gradient of what it has still to send.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    micro_batches, total = len(rows), torch.zeros(())
    limit = min(ranks - rank, micro_batches)
    is_first, is_last = rank == 0, rank == ranks - 1
    flying, inputs = [], None

    def room_for(k):
        return torch.empty(rows[k], width)

    def exchange(outgoing, to, incoming, source):
        steps = [(send, outgoing, to), (recv, incoming, source)]
        for call, tensor, other in steps if rank % 2 == 0 else steps[::-1]:
            if tensor is not None:
                call(tensor, other)

    gradient = None
    for turn in range(micro_batches + limit - 1):
        forward, backward = turn < micro_batches, turn >= limit - 1
        if turn == 0 or turn < limit:
            if not is_first and turn < micro_batches:
                inputs = room_for(turn)
                recv(inputs, rank - 1)
        output = None
        if forward:
            if is_first:
                inputs = x.split(rows)[turn]
            else:
                inputs.requires_grad_()
            output = part(inputs)
            if is_last:
                output = loss_fn(output, y.split(rows)[turn]) * rows[turn] / sum(rows)
                total += output.detach()
            flying.append((inputs, output))
        gradient = torch.empty_like(flying[0][1]) if backward and not is_last else None
        if not is_last:
            exchange(output.detach() if forward else None, rank + 1, gradient, rank + 1)
        if backward:
            old, out = flying.pop(0)
            out.backward(gradient)
            if not is_first:
                fetch = turn + 1 >= limit and turn + 1 < micro_batches
                inputs = room_for(turn + 1) if fetch else None
                exchange(old.grad, rank - 1, inputs, rank - 1)
    return total if is_last else None


# %% wrong: own_loss
# Uses a sum of squares, as fits mse_loss, and not the loss that it is given.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    number, total = len(rows), sum(rows)
    window = min(ranks - rank, number)
    below = min(ranks - rank - 1, number)  # how many the next rank takes before its first backward pass
    xs = x.split(rows) if first else None
    ys = y.split(rows) if last else None
    flying, mean = [], 0.0

    def forward(n):
        if first:
            into = xs[n]
        else:
            into = torch.empty(rows[n], width)
            recv(into, rank - 1)
            into.requires_grad_()
        out = part(into)
        if last:
            out = nn.functional.mse_loss(out, ys[n], reduction="sum") / y.numel()
        flying.append((into, out))
        return out

    def gradient_of(out):
        if last:
            return None
        gradient = torch.empty_like(out)
        recv(gradient, rank + 1)
        return gradient

    def backward(gradient):
        into, out = flying.pop(0)
        if out.requires_grad:
            out.backward(gradient)
        if not first:
            send(into.grad, rank - 1)

    for n in range(number):
        out = forward(n)
        if last:
            mean += out.item()
        if not last and n < below:
            send(out.detach(), rank + 1)
        if n >= window - 1:
            gradient = gradient_of(flying[0][1])
            if not last and n >= below:  # the next rank first sends its gradient, then wants this
                send(out.detach(), rank + 1)
            backward(gradient)
    while flying:
        backward(gradient_of(flying[0][1]))
    return mean if last else None


# %% wrong: linear_parts
# Takes the number of output features from the last nn.Linear, although a stage can have any layers.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    number, total = len(rows), sum(rows)
    window = min(ranks - rank, number)
    below = min(ranks - rank - 1, number)  # how many the next rank takes before its first backward pass
    xs = x.split(rows) if first else None
    ys = y.split(rows) if last else None
    flying, mean = [], 0.0

    def forward(n):
        if first:
            into = xs[n]
        else:
            into = torch.empty(rows[n], width)
            recv(into, rank - 1)
            into.requires_grad_()
        out = part(into)
        if last:
            out = loss_fn(out, ys[n]) * (rows[n] / total)
        flying.append((into, out))
        return out

    def gradient_of(out):
        if last:
            return None
        gradient = torch.empty(out.shape[0], [m for m in part if isinstance(m, nn.Linear)][-1].out_features)
        recv(gradient, rank + 1)
        return gradient

    def backward(gradient):
        into, out = flying.pop(0)
        if out.requires_grad:
            out.backward(gradient)
        if not first:
            send(into.grad, rank - 1)

    for n in range(number):
        out = forward(n)
        if last:
            mean += out.item()
        if not last and n < below:
            send(out.detach(), rank + 1)
        if n >= window - 1:
            gradient = gradient_of(flying[0][1])
            if not last and n >= below:  # the next rank first sends its gradient, then wants this
                send(out.detach(), rank + 1)
            backward(gradient)
    while flying:
        backward(gradient_of(flying[0][1]))
    return mean if last else None


# %% wrong: and_the_optimizer
# Makes a step of SGD at the end.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    number, total = len(rows), sum(rows)
    window = min(ranks - rank, number)
    below = min(ranks - rank - 1, number)  # how many the next rank takes before its first backward pass
    xs = x.split(rows) if first else None
    ys = y.split(rows) if last else None
    flying, mean = [], 0.0

    def forward(n):
        if first:
            into = xs[n]
        else:
            into = torch.empty(rows[n], width)
            recv(into, rank - 1)
            into.requires_grad_()
        out = part(into)
        if last:
            out = loss_fn(out, ys[n]) * (rows[n] / total)
        flying.append((into, out))
        return out

    def gradient_of(out):
        if last:
            return None
        gradient = torch.empty_like(out)
        recv(gradient, rank + 1)
        return gradient

    def backward(gradient):
        into, out = flying.pop(0)
        if out.requires_grad:
            out.backward(gradient)
        if not first:
            send(into.grad, rank - 1)

    for n in range(number):
        out = forward(n)
        if last:
            mean += out.item()
        if not last and n < below:
            send(out.detach(), rank + 1)
        if n >= window - 1:
            gradient = gradient_of(flying[0][1])
            if not last and n >= below:  # the next rank first sends its gradient, then wants this
                send(out.detach(), rank + 1)
            backward(gradient)
    while flying:
        backward(gradient_of(flying[0][1]))
    with torch.no_grad():
        for parameter in part.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    return mean if last else None


# %% wrong: eats_rows
# Takes the sizes out of the caller's list with pop(0), which all ranks share here.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    first, last = rank == 0, rank == ranks - 1
    number, total = len(rows), sum(rows)
    window = min(ranks - rank, number)
    below = min(ranks - rank - 1, number)  # how many the next rank takes before its first backward pass
    xs = x.split(rows) if first else None
    ys = y.split(rows) if last else None
    flying, mean = [], 0.0

    def forward(n):
        if first:
            into = xs[n]
        else:
            into = torch.empty(rows.pop(0), width)
            recv(into, rank - 1)
            into.requires_grad_()
        out = part(into)
        if last:
            out = loss_fn(out, ys[n]) * (out.shape[0] / total)
        flying.append((into, out))
        return out

    def gradient_of(out):
        if last:
            return None
        gradient = torch.empty_like(out)
        recv(gradient, rank + 1)
        return gradient

    def backward(gradient):
        into, out = flying.pop(0)
        if out.requires_grad:
            out.backward(gradient)
        if not first:
            send(into.grad, rank - 1)

    for n in range(number):
        out = forward(n)
        if last:
            mean += out.item()
        if not last and n < below:
            send(out.detach(), rank + 1)
        if n >= window - 1:
            gradient = gradient_of(flying[0][1])
            if not last and n >= below:  # the next rank first sends its gradient, then wants this
                send(out.detach(), rank + 1)
            backward(gradient)
    while flying:
        backward(gradient_of(flying[0][1]))
    return mean if last else None


# %% right: fetches_before_it_gives_back
# Warm-up, steady state and drain, as Megatron-LM has them: the exchange with each neighbor is one function.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    count, last = len(rows), rank == ranks - 1
    warm_up = min(ranks - rank - 1, count)
    kept, losses = [], []
    xs = iter(x.split(rows)) if rank == 0 else None
    ys = iter(y.split(rows)) if last else None

    def fetch(number):
        if rank == 0:
            return next(xs)
        room = torch.empty(rows[number], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    def go_forward(number, received):
        output = part(received)
        if last:
            output = loss_fn(output, next(ys)) * (rows[number] / sum(rows))
            losses.append(output.item())
        kept.append((received, output))
        if not last:
            send(output.detach(), rank + 1)

    def go_backward():
        received, output = kept.pop(0)
        if last:
            output.backward()
        else:
            gradient = torch.empty_like(output)
            recv(gradient, rank + 1)
            output.backward(gradient)
        return received.grad

    for number in range(warm_up):
        go_forward(number, fetch(number))
    received = fetch(warm_up) if warm_up < count else None
    for number in range(warm_up, count):
        go_forward(number, received)
        gradient = go_backward()
        if number + 1 < count:
            received = fetch(number + 1)
        if rank > 0:
            send(gradient, rank - 1)
    while kept:
        gradient = go_backward()
        if rank > 0:
            send(gradient, rank - 1)
    return sum(losses) if last else None


# %% right: fetches_before_it_goes_back
# A small class. The next input is fetched as soon as the last output is sent: the rank before has it ready, for it may
# have one more in flight.

class Messages:
    def __init__(self, rank, ranks, send, recv):
        self.send, self.recv, self.rank = send, recv, rank
        self.is_first, self.is_last = rank == 0, rank == ranks - 1

    def take_input(self, shape):
        tensor = torch.zeros(shape)
        self.recv(tensor, self.rank - 1)
        return tensor.requires_grad_()

    def give_output(self, tensor):
        if not self.is_last:
            self.send(tensor.detach(), self.rank + 1)

    def take_gradient(self, like):
        if self.is_last:
            return torch.ones_like(like)
        tensor = torch.empty_like(like)
        self.recv(tensor, self.rank + 1)
        return tensor

    def give_gradient(self, tensor):
        if not self.is_first:
            self.send(tensor.grad, self.rank - 1)


def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    post, micro_batches = Messages(rank, ranks, send, recv), len(rows)
    data = list(x.split(rows)) if post.is_first else [None] * micro_batches
    if not post.is_first:
        data[0] = post.take_input((rows[0], width))
    outputs, loss, back = {}, 0.0, 0
    for k in range(micro_batches):
        outputs[k] = part(data[k])
        if post.is_last:
            begin = sum(rows[:k])
            outputs[k] = loss_fn(outputs[k], y[begin : begin + rows[k]]) * (rows[k] / sum(rows))
            loss += float(outputs[k].detach())
        post.give_output(outputs[k])
        if k + 1 < micro_batches and not post.is_first:
            data[k + 1] = post.take_input((rows[k + 1], width))
        if len(outputs) == ranks - rank:
            torch.autograd.backward(outputs[back], post.take_gradient(outputs[back]))
            post.give_gradient(data[back])
            del outputs[back]
            back += 1
    for k in list(outputs):
        torch.autograd.backward(outputs[k], post.take_gradient(outputs[k]))
        post.give_gradient(data[k])
    if post.is_last:
        return loss


# %% right: turn_by_turn
# Counts turns without a list: a forward pass and a backward pass in each, where there are some.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    is_first, is_last = rank == 0, rank == ranks - 1
    most, total, in_flight = min(ranks - rank, len(rows)), 0, []

    def receive(number):
        if is_first:
            return x.split(rows)[number]
        room = torch.empty(rows[number], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    received = receive(0)
    for turn in range(len(rows) + most - 1):
        if turn < len(rows):
            output = part(received)
            if is_last:
                output = loss_fn(output, y.split(rows)[turn]) * rows[turn] / sum(rows)
                total += output.detach()
            else:
                send(output.detach(), rank + 1)
            in_flight.append((received, output))
        oldest = None
        if turn >= most - 1:
            oldest, output = in_flight.pop(0)
            gradient = None if is_last else torch.empty_like(output)
            if not is_last:
                recv(gradient, rank + 1)
            output.backward(gradient)
        if turn + 1 < len(rows):
            received = receive(turn + 1)  # before the gradient is sent: the rank before sends this first
        if oldest is not None and not is_first:
            send(oldest.grad, rank - 1)
    return total if is_last else None


# %% wrong: three_in_flight
# Lets no rank have more than three micro-batches in flight, as many as in the trials.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    is_first, is_last = rank == 0, rank == ranks - 1
    most, total, in_flight = min(ranks - rank, len(rows), 3), 0, []

    def receive(number):
        if is_first:
            return x.split(rows)[number]
        room = torch.empty(rows[number], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    received = receive(0)
    for turn in range(len(rows) + most - 1):
        if turn < len(rows):
            output = part(received)
            if is_last:
                output = loss_fn(output, y.split(rows)[turn]) * rows[turn] / sum(rows)
                total += output.detach()
            else:
                send(output.detach(), rank + 1)
            in_flight.append((received, output))
        oldest = None
        if turn >= most - 1:
            oldest, output = in_flight.pop(0)
            gradient = None if is_last else torch.empty_like(output)
            if not is_last:
                recv(gradient, rank + 1)
            output.backward(gradient)
        if turn + 1 < len(rows):
            received = receive(turn + 1)  # before the gradient is sent: the rank before sends this first
        if oldest is not None and not is_first:
            send(oldest.grad, rank - 1)
    return total if is_last else None


# %% wrong: fetched_first_if_there_are_many
# Fetches the next input before it sends a gradient only where there are as many micro-batches as ranks. With fewer,
# two neighbors wait for each other.

def stage_main(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    is_first, is_last = rank == 0, rank == ranks - 1
    most, total, in_flight = min(ranks - rank, len(rows)), 0, []

    def receive(number):
        if is_first:
            return x.split(rows)[number]
        room = torch.empty(rows[number], width)
        recv(room, rank - 1)
        return room.requires_grad_()

    early, received = len(rows) >= ranks, receive(0)
    for turn in range(len(rows) + most - 1):
        if turn < len(rows):
            if turn and not early:
                received = receive(turn)
            output = part(received)
            if is_last:
                output = loss_fn(output, y.split(rows)[turn]) * rows[turn] / sum(rows)
                total += output.detach()
            else:
                send(output.detach(), rank + 1)
            in_flight.append((received, output))
        oldest = None
        if turn >= most - 1:
            oldest, output = in_flight.pop(0)
            gradient = None if is_last else torch.empty_like(output)
            if not is_last:
                recv(gradient, rank + 1)
            output.backward(gradient)
        if early and turn + 1 < len(rows):
            received = receive(turn + 1)  # before the gradient is sent: the rank before sends this first
        if oldest is not None and not is_first:
            send(oldest.grad, rank - 1)
    return total if is_last else None
