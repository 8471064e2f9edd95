"""The drawn figures are what their code draws, and say in words what they show."""

import pytest

from tests.support.notebooks import ROOT
from tools.draw_figures import FIGURES, FIGURES_BY_NAME


@pytest.mark.parametrize("name", FIGURES_BY_NAME)
def test_a_figure_is_what_its_code_draws(name):
    stored = (FIGURES / name).read_text(encoding="utf-8")
    assert stored == FIGURES_BY_NAME[name](), "draw it again: python tools/draw_figures.py"
    assert 'role="img" aria-label="' in stored
    assert any(f"figures/{name})" in path.read_text() for path in (ROOT / "notebooks").glob("*.ipynb"))
