"""The emulator's own runner and the CPU backend take what is lowered here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voxrepo.repository.layout import Layout
from voxrepo_contract import emulated_om

from .graphs import CHANNELS, HOP, write_voice_of
from .test_lowered_voice import content, lowered


@pytest.mark.parametrize("precision", ["fp16", "mixed", "int8"])
def test_the_emulator_runs_a_lowered_graph(tmp_path: Path, precision: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VOXREPO_DEVICE", "emulator")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "emulator"))
    from acl.emulation.executor import GraphRunner

    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    made = lowered(layout, "tiny.vocoder", precision, content)
    runner = GraphRunner(emulated_om.read(made.versions[0].path / "generator.om"), compute=True)
    features = np.random.default_rng(1).standard_normal((2, CHANNELS, 32)).astype(np.float32)
    audio = runner.run([features, np.ones((2, 1, 32), np.float32)])[0]
    assert audio.shape == (2, 1, 32 * HOP) and audio.dtype == np.float32
    assert np.isfinite(audio).all() and np.abs(audio).max() > 0
