from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.repository.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path / "root")
    layout.model_repository.mkdir(parents=True)
    layout.ensembles.mkdir()
    return layout
