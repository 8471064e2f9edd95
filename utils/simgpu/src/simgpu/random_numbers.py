"""Random numbers: each simulated GPU draws from a generator of its own, as on CUDA.

The numbers come from PyTorch's CPU operators, and not all of those take a generator. So a GPU's generator is one of the
CPU's kind, and stands in the place of the CPU's own while an operator draws.

Its state is told as CUDA tells it: a seed and an offset, eight bytes each, because DTensor moves the offset to let each
rank draw numbers of its own. The CPU's kind has no offset. So a state that was asked for is remembered, and setting it
again goes on where it was; any other pair begins a sequence that seed and offset decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

import torch

A_DRAW = 4  # how far the offset goes with each operator: CUDA's is always a multiple of it
ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: spreads seeds that are close together
REMEMBERED = 1000  # states, of 5 KB each


_of_the_cpu = torch.Generator  # the class, whatever the name stands for later
_get_state = _of_the_cpu.get_state


class Generator(torch.Generator):
    """A generator of a simulated GPU: its own, or one that a program makes `beside` it.

    Its own begins with what `torch.manual_seed` said before there was one, as on CUDA.
    """

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, device: torch.device, seed: int, beside: bool = False):
        self._asked_for: OrderedDict[tuple[int, int], torch.Tensor] = OrderedDict()
        self._device, self._beside = device, beside
        self.manual_seed(seed)
        _generators[self._cdata] = self

    @property
    def device(self) -> torch.device:
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        _of_the_cpu.manual_seed(self, seed)
        self._seed, self._offset = _of_the_cpu.initial_seed(self), 0
        return self

    def seed(self) -> int:
        self.manual_seed(_of_the_cpu.seed(self))
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int) -> None:
        self.set_state(torch.tensor([self._seed, offset], dtype=torch.uint64).view(torch.uint8))

    def clone_state(self) -> Generator:
        """Another generator that will draw the same numbers."""
        return _rebuilt(*self.__reduce__()[1])

    def __reduce__(self):
        return _rebuilt, (self._device, self._seed, self._offset, _of_the_cpu.get_state(self))

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as 16 bytes."""
        self._asked_for[self._seed, self._offset] = _of_the_cpu.get_state(self)
        if len(self._asked_for) > REMEMBERED:
            self._asked_for.popitem(last=False)
        return torch.tensor([self._seed, self._offset], dtype=torch.uint64).view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> Generator:
        if state.dtype is not torch.uint8 or state.numel() != 16:
            raise RuntimeError(
                "RNG state of a simulated GPU is a torch.uint8 tensor of 16 bytes, as get_rng_state gives"
            )
        self._seed, self._offset = state.cpu().contiguous().view(torch.uint64).tolist()
        # Ranks set the states of their GPUs alike, whatever each of them has made beside.
        others = list(_generators.values()) if self._beside else []
        found = (each._asked_for.get((self._seed, self._offset)) for each in (self, *others))
        known = next((each for each in found if each is not None), None)
        if known is not None:
            _of_the_cpu.set_state(self, known)
        else:
            _of_the_cpu.manual_seed(self, (self._seed + ODD * self._offset) % 2**64)
        return self

    @contextmanager
    def in_place_of_the_cpus(self) -> Iterator[None]:
        """Inside, the CPU's operators draw from this generator. Afterwards the CPU's own is as it was."""
        global standing_in
        cpu = torch.default_generator
        before, own = cpu.get_state(), _get_state(self)
        cpu.set_state(own)
        earlier, standing_in = standing_in, self
        try:
            yield
        finally:
            standing_in = earlier
            drawn = cpu.get_state()
            cpu.set_state(before)
            if not torch.equal(drawn, own):
                _of_the_cpu.set_state(self, drawn)
                self._offset += A_DRAW


standing_in: Generator | None = None  # which one draws in place of the CPU's own now
# By the address of what it is in C++: operators are given that, and not the object.
_generators: WeakValueDictionary[int, Generator] = WeakValueDictionary()


def _rebuilt(device: torch.device, seed: int, offset: int, state: torch.Tensor) -> Generator:
    made = Generator(device, seed, beside=True)
    made._offset = offset
    _of_the_cpu.set_state(made, state)
    return made


def simulated(generator: torch.Generator) -> Generator | None:
    """The generator of a simulated GPU that an operator was given; None if it is another device's."""
    return _generators.get(generator._cdata)


def draws(func) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags or str(func) == "simgpu.attention_with_dropout.default"
