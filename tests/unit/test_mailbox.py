"""Ranks that are threads: messages arrive, one rank works at a time, and a deadlock is said at once."""

import threading

import pytest
import torch
from torch import nn

from utils.exercises.ledger import adding_to
from utils.kits.mailbox import Deadlock, noted, together


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize("sends_wait", [False, True])
def test_messages_arrive_in_order_and_all_threads_are_over(sends_wait):
    def ring(rank, send, recv):
        got = torch.empty(1)
        for step in range(3):
            if rank == 0:
                send(numbers(10.0 * step), 1)
                recv(got, 2)
            else:
                assert recv(got, rank - 1) == rank - 1
                send(got + 1, (rank + 1) % 3)
        return got.item()

    before = set(threading.enumerate())
    assert together(ring, 3, sends_wait=sends_wait) == [22.0, 20.0, 21.0]
    assert set(threading.enumerate()) <= before


def test_a_message_is_a_copy_and_is_received_into_a_leaf():
    def main(rank, send, recv):
        tensor = torch.zeros(2, requires_grad=rank == 1)
        if rank == 0:
            send(tensor, 1)
            tensor += 5
            return None
        recv(tensor, 0)
        return tensor.is_leaf, tensor.tolist()

    assert together(main, 2)[1] == (True, [0.0, 0.0])


def both_send_first(rank, send, recv):
    send(numbers(1.0), 1 - rank)
    recv(torch.empty(1), 1 - rank)


def test_who_sends_first_gets_stuck_only_where_sends_wait():
    assert together(both_send_first, 2) == [None, None]
    with pytest.raises(Deadlock, match="rank 0 waits until rank 1 receives; rank 1 waits until rank 0 receives"):
        together(both_send_first, 2, sends_wait=True)


def test_a_rank_that_ended_is_told_of():
    def main(rank, send, recv):
        if rank == 1:
            recv(torch.empty(1), 0)

    before = set(threading.enumerate())
    with pytest.raises(Deadlock, match="rank 1 waits for a message from rank 0, which has ended"):
        together(main, 2)
    assert set(threading.enumerate()) <= before


def test_what_a_rank_raises_is_raised_and_ends_the_others():
    def main(rank, send, recv):
        if rank == 2:
            raise KeyError("mine")
        recv(torch.empty(1), 2)

    with pytest.raises(KeyError, match="mine"):
        together(main, 3)


@pytest.mark.parametrize(
    ("room", "words"),
    [(torch.empty(3), "sent 2 of float32, and rank 1 receives it into 3 of"), (torch.empty(2).double(), "float64")],
)
def test_a_message_of_another_form_is_refused(room, words):
    def main(rank, send, recv):
        send(torch.zeros(2), 1) if rank == 0 else recv(room, 0)

    with pytest.raises(ValueError, match=words):
        together(main, 2)


@pytest.mark.parametrize(("what", "where", "words"), [([1], 1, "give a tensor"), (numbers(1.0), 0, "other ranks")])
def test_what_cannot_be_sent_is_refused(what, where, words):
    with pytest.raises((TypeError, ValueError), match=words):
        together(lambda rank, send, recv: send(what, where) if rank == 0 else None, 2)


def test_actions_are_noted_with_the_number_of_their_micro_batch():
    part = nn.Linear(2, 1)
    actions = noted(part, 3)
    first, second = part(torch.ones(1, 2)), part(torch.ones(1, 2))
    second.backward()
    first.backward()
    with torch.no_grad():
        part(torch.ones(1, 2))
    assert actions == ["F3.0", "F3.1", "B3.1", "B3.0", "F3.2"]


def test_letters_are_noted_when_they_are_sent_and_when_they_are_received():
    def main(rank, send, recv):
        if rank == 0:
            send(numbers(1.0), 1), send(numbers(2.0), 1)
        else:
            recv(torch.empty(1), 0), recv(torch.empty(1), 0)

    letters = []
    together(main, 2, letters=letters)
    assert letters == [(0, "send", 1), (0, "send", 1), (1, "recv", 0), (1, "recv", 0)]
    letters.clear()
    together(main, 2, sends_wait=True, letters=letters)
    assert letters == [(0, "send", 1), (1, "recv", 0), (0, "send", 1), (1, "recv", 0)]


def held_by(function) -> list:
    """What closures show, from one function to the next."""
    found, waiting = [], [function]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
    return found


def test_send_and_recv_hold_nothing_that_decides():
    def main(rank, send, recv):
        return [type(each).__name__ for function in (send, recv) for each in held_by(function)]

    assert {*together(main, 2)[0]} == {"function", "int", "SimpleQueue"}


def test_who_may_add_to_a_list_does_not_reach_it():
    found = []
    note = adding_to(found)
    note("one"), note(["two"])
    assert found == ["one", ["two"]]
    assert not any(each is found for each in (*held_by(note), getattr(note.__self__, "found", None)))
