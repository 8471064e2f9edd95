"""Plain data: what may pass between a student's kernel and the grader. JSON, and arrays of numbers.

Nothing is unpickled or evaluated on the way in, so that what a submission sends is only ever data.
"""

from __future__ import annotations

import base64
import io
import json

import numpy as np

ARRAY = "__array__"
LARGEST_MESSAGE = 32_000_000  # characters


def encode(value) -> str:
    """`value` (numbers, text, lists, dicts with text keys, numpy arrays) as one line of ASCII.

    Raises TypeError for anything else, naming its type.
    """
    return base64.b64encode(json.dumps(value, default=_array_to_json).encode()).decode()


def decode(text: str):
    """The value that `encode` was given. Raises ValueError for text that `encode` did not make."""
    if len(text) > LARGEST_MESSAGE:
        raise ValueError(f"a message of {len(text)} characters, more than {LARGEST_MESSAGE}")
    try:
        return json.loads(base64.b64decode(text, validate=True), object_hook=_array_from_json)
    except (ValueError, RecursionError, TypeError, EOFError) as error:
        raise ValueError(f"not a message: {error}") from None


def _array_to_json(value):
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} is not plain data")
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return {ARRAY: base64.b64encode(file.getvalue()).decode()}


def _array_from_json(value):
    if value.keys() == {ARRAY}:
        return np.load(io.BytesIO(base64.b64decode(value[ARRAY], validate=True)), allow_pickle=False)
    return value
