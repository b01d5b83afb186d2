from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from voxrepo.repository.layout import Layout

from .arm_scene import Scene, make_scene


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path / "root")
    layout.model_repository.mkdir(parents=True)
    layout.ensembles.mkdir()
    return layout


@pytest.fixture
def scene(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(layout, monkeypatch)


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait for something another process does."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
