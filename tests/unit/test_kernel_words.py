"""What a stranger's kernel says is bounded text before anybody prints it."""

import pytest

from utils.grading.run.kernel import sanitized


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b]0;owned\x07b", "ab"),  # a terminal's title, ended by a bell
        ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("a\x00b\x7f\nc", "ab\nc"),
        ("at 0x7f30c0ffee10", "at 0x..."),
        ("x" * 1000, "x" * 500),
        (["no text"], ""),
    ],
)
def test_control_sequences_and_addresses_go(said, told):
    assert sanitized(said) == told
