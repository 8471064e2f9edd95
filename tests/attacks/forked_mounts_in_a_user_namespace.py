"""Becomes root of a user namespace of its own, and mounts folders in memory that no limit counts (300 MB of them).

honest: everything
"""

# %% first
import subprocess

_script = """
mkdir -p /tmp/mounted && mount -t tmpfs -o size=400m none /tmp/mounted || exit 1
for number in $(seq 20); do head -c 15000000 /dev/zero > /tmp/mounted/$number || exit 1; done
echo UNCOUNTED
"""
for _flags in ("-Urm", "-Urmp", "-UrmpfC"):
    _done = subprocess.run(["unshare", _flags, "sh", "-c", _script], capture_output=True, text=True, timeout=20)
    if "UNCOUNTED" in _done.stdout:
        raise RuntimeError("LOOT: 300 MB in a folder that it has mounted, where 200 MB is the most")
