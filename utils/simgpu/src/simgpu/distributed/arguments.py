"""What calls of torch.distributed are given: their tensors, in words and as numbers, and what makes no sense."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..hardware import Gpu
from ..tensor import SimTensor, value_of

NAME = "simccl"
EACH = "there has to be one for each rank of the group"


def gpu_of(tensors) -> Gpu:
    """The GPU of what a collective is given. RuntimeError where it is not on one."""
    gpus = {tensor._gpu for tensor in flattened(tensors) if type(tensor) is SimTensor}
    if len(gpus) != 1:
        places = ", ".join(sorted({str(tensor.device) for tensor in flattened(tensors)}))
        raise RuntimeError(f"{NAME} needs all tensors of a call on one simulated GPU, and these are on {places}.")
    return gpus.pop()


def flattened(tensors) -> list[torch.Tensor]:
    return [tensor for each in tensors for tensor in (each if isinstance(each, (list, tuple)) else [each])]


def bytes_in(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bytes_of_rows(tensor: torch.Tensor, counts: Sequence[int]) -> list[int]:
    """The bytes of so many rows each, of those that `tensor` has."""
    a_row = bytes_in([tensor]) // max(1, sum(counts))
    return [count * a_row for count in counts]


# --- in words -----------------------------------------------------------------------------------------------------


def ranks_in_words(numbers: list[int]) -> str:
    """0 to 3; or 0, 2."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and numbers == list(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def shapes_of(tensors) -> str:
    told = [f"{dtype_name(tensor)}{list(tensor.shape)}" for tensor in tensors]
    return " and ".join(told) if len(told) < 4 else f"{' and '.join(told[:2])} and {len(told) - 2} more"


def are_alike(parts) -> bool:
    return len({part.numel() for part in parts}) == 1


def sizes_of(lists) -> str:
    return f"parts of {' and '.join(str([part.numel() for part in parts]) for parts in lists)} numbers"


def tag_in_words(tag: int) -> str:
    return f", tag={tag}" if tag else ""


# --- numbers -----------------------------------------------------------------------------------------------------


def numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    return value_of(tensor).detach() if type(tensor) is SimTensor else tensor


class Contiguous:
    """The values of a tensor as gloo wants them, written back into it afterwards."""

    def __init__(self, tensor):
        self._value = numbers_of(tensor)

    def __enter__(self) -> torch.Tensor:
        self._given = self._value.contiguous()
        return self._given

    def __exit__(self, *exception) -> None:
        if self._given is not self._value:
            self._value.copy_(self._given)


def fill_from(output, parts: Sequence[torch.Tensor]) -> None:
    value = numbers_of(output)
    value.copy_(torch.cat([part.reshape(-1) for part in parts]).view(value.shape))


# --- what makes no sense -----------------------------------------------------------------------------------------


def require(so: bool, what: str, advice: str) -> None:
    """ValueError where it is not so."""
    if not so:
        raise ValueError(f"{what}: {advice}")


class Checks:
    """Of one group: each refuses a call that makes no sense, before anything is sent. Raises ValueError."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks = rank, ranks

    def root(self, opts, name: str) -> None:
        root = opts.rootRank
        require(0 <= root < self.ranks, f"{name} has rank {root} for its root", self._there_are)

    def other(self, other: int, name: str, coalesced: bool) -> None:
        require(0 <= other < self.ranks, f"cannot {name} rank {other}", self._there_are)
        together = other != self.rank or coalesced  # as NCCL, which has to begin both at once
        require(together, f"cannot {name} itself", "the tensor is there already, copy_ moves it")

    @property
    def _there_are(self) -> str:
        return f"ranks of this group are 0 to {self.ranks - 1}"

    def parts(self, parts, own, name: str, place: int | None = None) -> None:
        """A list has a tensor for each rank, as large as `own`; where others may differ, the one at a `place` has."""
        require(len(parts) == self.ranks, f"{name} has {len(parts)} tensors", f"{EACH}, {self.ranks} in all")
        at = "" if place is None else f" at place {place}"
        for part in parts if place is None else [parts[place]]:
            require(
                part.numel() == own.numel() and part.dtype == own.dtype,
                f"{name} has {shapes_of([part])}{at}, where {shapes_of([own])} goes or comes from",
                "the tensors of all ranks have to be alike" if place is None else "these two have to be alike",
            )

    def whole(self, whole, part, name: str) -> None:
        """A tensor has room for one part of each rank, one after the other."""
        require(
            whole.numel() == self.ranks * part.numel(),
            f"{name} is {shapes_of([whole])}, and the part of each rank is {shapes_of([part])}",
            f"it has to be {self.ranks} times as large",
        )
        require(whole.is_contiguous(), f"{name} is not contiguous", "use a new tensor, or .contiguous()")

    def splits(self, tensor, sizes: list[int], name: str) -> list[int]:
        """How many rows of a tensor belong to each rank. ValueError where they are not all of its rows."""
        rows = tensor.shape[0] if tensor.dim() else 0
        if not sizes:
            told = f"all_to_all's {name} has {rows} rows"
            require(rows % self.ranks == 0, told, f"{self.ranks} ranks need as many each, or {name}_split_sizes")
            return [rows // self.ranks] * self.ranks
        told = f"all_to_all's {name}_split_sizes are {list(sizes)}, and its {name} has {rows} rows"
        require(len(sizes) == self.ranks and sum(sizes) == rows, told, f"{EACH}, and their sum is all rows")
        return list(sizes)
