"""The Mandarin voice, whose vocoder reflects at its ends, on the emulated NPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import Audio, rms_dbfs, speak
from tests.e2e.emulated import SOC, EmulatedNpu, emulated_server
from tests.harness import MANDARIN_VOICE, clone_root, running_server, voxrepo
from tests.mandarin import SENTENCES

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1800)]

SAMPLE_RATE_HZ = 24_000
MAX_DIFFERENCE_LSB = 1e-3 * 32768
GEARS = "batch=1,2;ids=64,288;frames=72,160,512,1536"
TEXTS = ("啊", SENTENCES[0], "".join(SENTENCES[:4]))
"""The first, spoken fast, has fewer frames than the reflections need; the last is several windows long."""


def say_all(grpc_url: str) -> list[Audio]:
    with grpc_client.InferenceServerClient(grpc_url) as client:
        return [
            speak(client, text, voice=MANDARIN_VOICE, rate_hz=SAMPLE_RATE_HZ, speed=speed)
            for text in TEXTS
            for speed in (1.0, 4.0)
        ]


def test_it_says_what_it_says_on_a_cpu(mandarin_root: Path, tmp_path: Path):
    cpu, emulated = (clone_root(mandarin_root, tmp_path / name) for name in ("cpu", "emulated"))
    command = ("convert", MANDARIN_VOICE, "--target", "emulator", "--soc", SOC, "--gears", GEARS)
    result = voxrepo(*command, "--root", str(emulated), timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "its gears have batch 1" in result.stderr
    npu = EmulatedNpu(tmp_path / "npu")
    npu.folder.mkdir()
    npu.write_settings()
    with running_server(cpu) as server:
        expected = say_all(server.grpc_url)
    with emulated_server(emulated, npu) as server:
        said = say_all(server.grpc_url)
    for want, got in zip(expected, said, strict=True):
        assert len(want) == len(got)
        assert np.abs(want.astype(np.int32) - got).max() <= MAX_DIFFERENCE_LSB
    assert -36 < rms_dbfs(said[2]) < -12
    assert npu.of_kind("violation") == [] and npu.of_kind("leak") == []
