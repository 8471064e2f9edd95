"""The command that the hub starts for a student, in their room: a server, forked from the class's warm process.

Where there is none, this process becomes an ordinary server.
"""

from __future__ import annotations

import os
import sys

from utils.common.settings import FORK_SERVER
from utils.processes.forking import ForkServerEnded, lent_at

ORDINARY = ["-m", "jupyterhub.singleuser"]


def main() -> None:
    """Never returns."""
    arguments = sys.argv[1:]
    request = {"environment": dict(os.environ), "folder": os.getcwd(), "server": arguments}
    try:
        warm = lent_at(os.environ.get(FORK_SERVER, ""))
        server = warm.fork(request, [1, 2])
    except ForkServerEnded as error:
        print(f"An ordinary server is started: {error}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, *ORDINARY, *arguments])
    warm.close()
    sys.exit(server.wait())


if __name__ == "__main__":
    main()
