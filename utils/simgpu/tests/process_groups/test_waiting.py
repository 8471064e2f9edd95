"""The thread by which a rank looks at the others."""

import threading
import time

from simgpu.waiting import _Guard


class SlowStore:
    """A store as `_Guard` needs it, which takes its time: a stand-in for one that many ranks ask at once."""

    def __init__(self):
        self.asked = threading.Event()

    def clone(self):
        return self

    def set(self, key, value):
        self.asked.set()
        time.sleep(0.5)


def test_a_rank_that_ends_waits_until_its_guard_is_out_of_the_store():
    """Python ends threads when it ends. In C++, as in a real store, that would abort the process."""
    store = SlowStore()
    guard = _Guard(store, 0)
    assert store.asked.wait(60)
    guard._end()
    assert not guard._thread.is_alive()
