"""The facts about lesson 13's tasks."""

from itertools import pairwise

import numpy as np

from utils.exercises.facts import Lab, case, need
from utils.exercises.tasks.lesson13.measured import HALF, STEPS

lab = Lab("lesson13", "Beyond one machine")

task = lab.exercise(
    "run_stage",
    points=0,
    title="One stage of GPipe",
    hints=[
        "Receive into a tensor that you create: torch.empty_like(x). Call requires_grad_() on it before the stage "
        "computes with it.",
        "Begin with passed = []. Append (x, out) for each micro-batch: the backward pass needs both.",
        "Send out.detach() on every rank but the last. There, out becomes the loss.",
    ],
)


def staged(lab, widths, place, rows, cut, seed):
    """Each rank's part by itself, with neighbors that send what the whole model's have: messages and gradients."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, gradient_of

    whole = nn.Sequential(*[nn.Linear(widths, widths) for _ in range(cut * 2)])
    fill(whole, seed)
    whole.to(place)
    layers = list(whole)
    numbers = torch.Generator().manual_seed(seed)
    batches = [
        (torch.randn(n, widths, generator=numbers).to(place), torch.randn(n, widths, generator=numbers).to(place))
        for n in rows
    ]

    def loss_fn(output, target):
        return (output - target).square().mean()

    # What passes each border, by the whole model.
    going, coming = [[] for _ in range(cut)], [[] for _ in range(cut)]
    for x, y in batches:
        starts, outs = [], []
        for rank in range(cut):
            starts.append(torch.detach(outs[-1] if outs else x).requires_grad_())
            outs.append(layers[2 * rank + 1](layers[2 * rank](starts[-1])))
            going[rank].append(torch.detach(outs[-1]))
        gradient = None
        for rank in reversed(range(cut)):
            if gradient is None:
                (loss_fn(outs[rank], y) / len(batches)).backward()
            else:
                outs[rank].backward(gradient)
            gradient = starts[rank].grad
            coming[rank].append(gradient)
    wanted = [gradient_of(p) for p in whole.parameters()]

    told = []
    for rank in range(cut):
        stage = nn.Sequential(layers[2 * rank], layers[2 * rank + 1])
        stage.zero_grad()
        log = []
        stage.register_forward_hook(lambda part, inputs, output, log=log: log.append(("computes", -1, 0)))
        counts = {"up": 0, "down": 0, "from below": 0, "from above": 0}

        def send(tensor, dst, rank=rank, log=log, counts=counts):
            log.append(("send", dst, array(tensor)))
            if dst == rank + 1:
                counts["up"] += 1

        def recv(tensor, src, rank=rank, log=log, counts=counts):
            below = src == rank - 1
            which = "from below" if below else "from above"
            there = (going[rank - 1] if below else coming[rank + 1]) if 0 <= src < cut and src != rank else []
            number = counts[which]
            ready = len(there) if below else min(len(there), counts["up"])
            if number >= ready:
                log.append(("waits", src, number))
                raise RuntimeError(f"rank {rank} would wait forever for message {number} from rank {src}")
            if tuple(tensor.shape) != tuple(there[number].shape):
                log.append(("shape", src, [list(tensor.shape), list(there[number].shape)]))
                raise RuntimeError(f"rank {rank} receives {list(there[number].shape)} into {list(tensor.shape)}")
            counts[which] = number + 1
            log.append(("recv", src, number))
            tensor.copy_(there[number])

        failed = None
        try:
            lab.run_stage(stage, list(batches), loss_fn, rank, cut, send, recv)
        except RuntimeError as error:
            if not log or log[-1][0] not in ("waits", "shape"):
                raise
            failed = str(error)
        told.append(
            {
                "log": log,
                "failed": failed,
                "gradients": [None if p.grad is None else array(p.grad) for p in stage.parameters()],
                "up": [array(each) for each in going[rank]],
                "down": [array(each) for each in coming[rank]],
            }
        )
    return {"ranks": told, "wanted": wanted}


def same(messages, right):
    return len(messages) == len(right) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(messages, right, strict=True)
    )


def in_turns(log, what, other, to) -> bool:
    """Whether each `what` (with rank `other`) has been followed by a message to rank `to` before the next begins."""
    steps = [kind for kind, rank, _ in log if (kind, rank) in ((what, other), ("send", to))]
    begins = [place for place, kind in enumerate(steps) if kind == what]
    return all("send" in steps[one:two] for one, two in pairwise(begins))


def compare(student, place, rows, cut, seed):
    with case(f"With {cut} ranks and micro-batches of {', '.join(map(str, rows))} samples"):
        run = student.run(staged, 6, place, rows, cut, seed)
        for rank, told in enumerate(run["ranks"]):
            who = f"rank {rank} of {cut}"
            if told["failed"]:
                kind, src, detail = told["log"][-1]
                need(
                    kind != "shape",
                    f"{who} gives recv a tensor of shape {detail[0]} where rank {src} sends {detail[1]}."
                    if kind == "shape"
                    else "",
                )
                what = "an activation" if src == rank - 1 else "a gradient" if src == rank + 1 else "something"
                have = f"message {detail} ({what}) from rank {src}, which never comes"
                need(False, f"{who} waits for {have}. What has rank {src} received by then?")
            sent = [(dst, value) for kind, dst, value in told["log"] if kind == "send"]
            strange = sorted({dst for dst, _ in sent if dst not in (rank - 1, rank + 1) or not 0 <= dst < cut})
            need(not strange, f"{who} sends to rank {strange[0] if strange else 0}, which is not a neighbor.")
            if rank < cut - 1:
                up = [value for dst, value in sent if dst == rank + 1]
                need(len(up) == len(rows), f"{who} sends {len(up)} activations to rank {rank + 1}, not {len(rows)}.")
                need(
                    in_turns(told["log"], "computes", -1, rank + 1),
                    f"{who} computes the next micro-batch before it sends the previous one, so rank {rank + 1} "
                    "starts later than it could.",
                )
                need(
                    same(up, told["up"]),
                    f"The tensors that {who} sends to rank {rank + 1} do not match its stage's outputs in order.",
                )
            if rank > 0:
                down = [value for dst, value in sent if dst == rank - 1]
                need(len(down) == len(rows), f"{who} sends {len(down)} gradients to rank {rank - 1}, not {len(rows)}.")
                need(
                    not same(down, [len(rows) * each for each in told["down"]]),
                    f"The gradient that {who} sends to rank {rank - 1} is {len(rows)} times as large as it should be. "
                    "Is each loss divided by the number of micro-batches?",
                )
                need(
                    not same(down[::-1], told["down"]) or len(rows) == 1,
                    f"{who} sends the gradients to rank {rank - 1} in reverse order.",
                )
                need(
                    rank == cut - 1 or in_turns(told["log"], "recv", rank + 1, rank - 1),
                    f"{who} receives the next gradient before it sends the previous one on, so rank {rank - 1} "
                    "starts later than it could.",
                )
                need(
                    same(down, told["down"]),
                    f"The tensors that {who} sends to rank {rank - 1} do not match its inputs' gradients in order.",
                )
            kinds = [kind for kind, other, _ in told["log"] if other == rank + 1]
            need(
                kinds == ["send"] * len(rows) + ["recv"] * len(rows) or rank == cut - 1,
                f"{who} runs a backward pass before all forward passes are done. That is not GPipe.",
            )
            right = run["wanted"][4 * rank : 4 * rank + 4]
            need(
                all(g is not None for g in told["gradients"]),
                f"On {who}, some parameters have no gradient at the end.",
            )
            need(
                same(told["gradients"], right),
                f"The gradients on {who} are not those of the whole model.",
            )


@task.fact("each rank sends what its neighbors wait for and ends with the whole model's gradients")
def _(student):
    compare(student, student.devices[0], [3, 3, 3], 3, 1)


@task.fact("the same holds with two ranks, another device, and a smaller last micro-batch")
def _(student):
    compare(student, student.devices[1], [4, 4, 4, 1], 2, 2)


# --- a checkpoint ----------------------------------------------------------------------------------------------------

checkpoint = lab.exercise(
    "train",
    points=0,
    title="Train, save and resume",
    hints=[
        "torch.save([step + 1, model.state_dict(), optimizer.state_dict()], name) writes a list to a file.",
        "torch.load(file, map_location='cpu') returns it. load_state_dict copies the values to the weights' device.",
        "Save to another name first, then call os.replace(name, file). A crash leaves the old file or the new one.",
    ],
)


def on_two(lab, measure):
    from tempfile import TemporaryDirectory

    from utils.exercises.tasks.lesson13 import measured
    from utils.exercises.tasks.on_ranks import on_ranks

    with TemporaryDirectory() as folder:
        return on_ranks(2, getattr(measured, measure), lab.train, folder)


def close(one, other):
    return np.allclose(one, other, rtol=1e-4, atol=1e-6)


@checkpoint.fact("without a file, it trains on all batches and saves a file")
def _(student):
    for rank, told in enumerate(student.run(on_two, "trained")):
        once = told["once"]
        need(
            once["computed"] == STEPS,
            f"Rank {rank} runs the model {once['computed']} times for {STEPS} batches.",
        )
        need(not close(once["weights"], told["before"]), "The weights have not changed.")
        need(close(once["weights"], told["right"]), "The weights are not those of a plain loop. Is zero_grad called?")
        need(once["file"], "There is no file at the end.")


@checkpoint.fact("a second job resumes from the file and ends with the same weights as a single job")
def _(student):
    told = student.run(on_two, "trained")[0]
    again = told["again"]
    need(
        again["computed"] == STEPS - HALF,
        f"After a checkpoint of {HALF} of {STEPS} batches it trains on {again['computed']} more. Which one is next?",
    )
    need(not close(again["weights"], told["forgot"]), "The weights are loaded, but Adam's state starts from zero.")
    need(close(again["weights"], told["right"]), "The second job ends with other weights. Does it load the saved ones?")


@checkpoint.fact("rank 0 saves after each batch, and other ranks do not")
def _(student):
    saves = [told["once"]["saves"] for told in student.run(on_two, "trained")]
    need(not saves[1], "Rank 1 writes to the same file as rank 0. Only rank 0 saves.")
    need(saves[0] >= STEPS, f"Rank 0 saves {saves[0]} times for {STEPS} batches.")


@checkpoint.fact("a crash during a save leaves the previous file intact")
def _(student):
    broken = student.run(on_two, "crashed")[0]
    need(
        not broken,
        f"After a crash in torch.save, torch.load raises {broken}: the previous checkpoint is lost. "
        "Save to another name, then call os.replace.",
    )


# --- an exchange that cannot hang ------------------------------------------------------------------------------------

ring = lab.exercise(
    "ring_shift",
    points=0,
    title="Send to the next rank, receive from the previous one",
    hints=[
        "dist.P2POp(dist.isend, tensor, (rank + 1) % count) describes a send; one with dist.irecv fills a tensor.",
        "dist.batch_isend_irecv([send, receive]) starts both and returns objects to wait for.",
        "Call wait() on each before you return the tensor.",
    ],
)


def shift(lab, ranks):
    from utils.exercises.tasks.lesson13.measured import shifted
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(ranks, shifted, lab.ring_shift)


def compare_rings(student, ranks):
    with case(f"On {ranks} ranks"):
        for rank, told in enumerate(student.run(shift, ranks)):
            before, after = (rank - 1) % ranks, (rank + 1) % ranks
            need(told["got"] is not None, f"Rank {rank} returns a {told['kind']}. Which tensor was filled?")
            got = told["got"]
            need(told["left"] == [rank] * 3, f"Rank {rank}'s own tensor is overwritten. Receive into a new one.")
            need(got != [rank] * 3, f"Rank {rank} returns its own tensor.")
            need(got != [after] * 3 or before == after, f"Rank {rank} has the tensor of the next rank, {after}.")
            need(got == [before] * 3, f"Rank {rank} does not have rank {before}'s tensor. Does it wait for both?")


@ring.fact("each of two ranks has the other's tensor")
def _(student):
    compare_rings(student, 2)


@ring.fact("each of three ranks has the previous rank's tensor")
def _(student):
    compare_rings(student, 3)
