"""A voice made of two graphs, served by a real server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.harness import RunningServer, running_server, voxrepo
from voxrepo.versions.smoke import say

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")

from tests.importers.generic_pairs import matcha_pair

pytestmark = pytest.mark.e2e


def test_a_created_voice_is_served_and_says_the_same_twice(tmp_path: Path):
    pair = matcha_pair(tmp_path / "pair")
    root = tmp_path / "root"
    created = voxrepo(
        *("voice", "create", "made", "--frontend", pair.frontend, "--tokens", str(pair.tokens)),
        *("--acoustic", str(pair.acoustic), "--vocoder", str(pair.vocoder)),
        *("--sample-rate", str(pair.sample_rate_hz), "--root", str(root)),
    )
    assert created.returncode == 0, created.stderr
    server: RunningServer
    with running_server(root) as server, triton.InferenceServerClient(server.grpc_url) as client:
        text = "Good morning. The train leaves at nine, and the next one at ten."
        first, second, other = (say(client, "made", text, "default", seed) for seed in (1, 1, 2))
    assert first.sample_rate_hz == pair.sample_rate_hz
    assert first.audio.size > 2 * pair.sample_rate_hz
    assert np.abs(first.audio.astype(int)).max() > 3000
    np.testing.assert_array_equal(first.audio, second.audio)
    assert not np.array_equal(first.audio, other.audio)
