"""Which versions of PyTorch have the private names that a Python device needs."""

from __future__ import annotations

import torch
from torch.utils import backend_registration

# Versions whose private names were tried: the first that has them all, and the newest that was tested.
FIRST_TESTED = (2, 11)
LAST_TESTED = (2, 15)


def torch_version() -> tuple[int, int]:
    """(major, minor) of the PyTorch that is running."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def require_tested_torch() -> None:
    """Raise RuntimeError where this PyTorch lacks what a Python device needs, naming versions that have it."""
    tested = f"torch {'.'.join(map(str, FIRST_TESTED))} to {'.'.join(map(str, LAST_TESTED))}"
    if torch_version() < FIRST_TESTED:
        raise RuntimeError(
            f"simgpu was tested with {tested}, and this is torch {torch.__version__}. "
            f"Install a newer one: pip install 'torch>={'.'.join(map(str, FIRST_TESTED))}'"
        )
    missing = [
        name
        for owner, name in (
            (backend_registration, "_setup_privateuseone_for_python_backend"),
            (torch._C, "_acc"),
            (torch._C, "_autograd"),
        )
        if not hasattr(owner, name)
    ]
    if missing:
        raise RuntimeError(
            f"simgpu needs {', '.join(missing)}, which torch {torch.__version__} no longer has. "
            f"It was tested with {tested}: install one of those."
        )
