"""nbformat, loaded without what takes longest and is not used.

nbformat loads jsonschema, and that a grammar of web addresses in all alphabets (rfc3987-syntax), which each process
builds again: 2.5 s of CPU, as much as PyTorch. Notebooks have no such addresses to be checked, and where the grammar
cannot be imported jsonschema does without.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)

import nbformat  # noqa: E402

__all__ = ["nbformat"]
