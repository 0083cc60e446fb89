"""`slipway models`: a model's page fits the terminal."""

import pytest

from launcher.answers.models import page
from launcher.catalog.load import load


@pytest.mark.parametrize("width", [80, 120])
def test_page_of_every_model_fits_the_width_and_keeps_its_words(width):
    for model in load().models.values():
        lines = page(model, width)
        assert max(map(len, lines)) <= width, model.name
        text = " ".join(" ".join(lines).split())
        assert ", ".join((model.name, *model.aliases)) in text
