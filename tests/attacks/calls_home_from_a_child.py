"""Does the same from a shell: /dev/tcp of bash, curl, git, pip, and a child of Python.

honest: everything
"""

# %% first
import subprocess
import sys

_here = "127.0.0.1"
for _command in (
    ["bash", "-c", f"echo x > /dev/tcp/{_here}/@PORT@"],
    ["curl", "-s", "-m", "1", f"http://{_here}:@PORT@/"],
    ["git", "ls-remote", f"git://{_here}:@PORT@/x"],
    [sys.executable, "-c", f"import socket; socket.create_connection(('{_here}', @PORT@), 1).send(b'x')"],
):
    try:
        subprocess.run(_command, timeout=3, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        pass
