"""Registers atexit functions, finalizers and threads that write files when the process ends, or hang there.

honest: everything
"""

# %% first
import atexit
import threading
import time
import weakref


def _write():
    for place in ("/tmp", "/var/tmp", "@CLASS@", "@HOME@"):
        try:
            open(f"{place}/@MARK@-atexit", "w").close()
        except OSError:
            pass


class _Thing:
    pass


_thing = _Thing()
weakref.finalize(_thing, _write)
atexit.register(time.sleep, 300)
atexit.register(_write)
threading._register_atexit(_write)
threading.Thread(target=time.sleep, args=(300,)).start()
