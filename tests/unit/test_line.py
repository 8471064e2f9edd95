"""Servers that wait for memory: in the order in which they came, and told so."""

import asyncio

import pytest

from utils.hub import line as of_line
from utils.hub.line import A_START, Line, words

GIB = 2**30


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(of_line, "LOOKS_EACH", 0)


async def in_order(line, students, free, more):
    """Who was let in, in order; `more` bytes come free each time that nobody can go on."""
    entered = []

    async def one(student):
        await line.wait(student)
        entered.append(student)

    waiting = [asyncio.ensure_future(one(student)) for student in students]
    told = []
    while len(entered) < len(students):
        for _ in range(20):
            await asyncio.sleep(0)
        told.append((list(entered), [line.before(student) for student in students]))
        free[0] += more
    await asyncio.gather(*waiting)
    return told


def test_who_came_first_goes_first_and_the_others_know_their_place():
    free = [GIB]
    line = Line(GIB, lambda: free[0], clock=lambda: 0.0)
    told = asyncio.run(in_order(line, ["ann", "bob", "eve"], free, A_START))
    assert told == [
        ([], [0, 1, 2]),
        (["ann"], [None, 0, 1]),
        (["ann", "bob"], [None, None, 0]),
        (["ann", "bob", "eve"], [None, None, None]),
    ]


def test_a_start_counts_until_its_memory_is_taken():
    now, line = [0.0], None
    line = Line(GIB, lambda: GIB + A_START, clock=lambda: now[0])
    asyncio.run(line.wait("ann"))
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(line.wait("bob"), 0.05))
    assert line.before("bob") is None  # who gave up holds up no other
    now[0] = of_line.TAKEN_WITHIN
    asyncio.run(line.wait("eve"))


@pytest.mark.parametrize(("before", "told"), [(0, "You are next."), (1, "1 student is"), (3, "3 students are")])
def test_a_student_is_told_their_place(before, told):
    assert told in words(before)
