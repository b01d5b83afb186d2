from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.tiny import make_voice
from voxrepo.repository.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A root with a sound voice ``tiny`` whose graphs hold nothing."""
    layout = Layout.of(tmp_path / "root")
    layout.model_repository.mkdir(parents=True)
    layout.ensembles.mkdir()
    make_voice(layout)
    return layout
