"""What the server says is the text, through every door, and sounds like speech."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import jiwer
import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import SAMPLE_RATE_HZ, SENTENCES, generate, rms_dbfs, speak, speak_http
from tests.harness import RunningServer
from tests.recogniser import Recogniser, words

pytestmark = pytest.mark.e2e

TEXT = "The same words through every door."


@pytest.mark.asr
def test_a_recogniser_understands_everyday_sentences(server: RunningServer, recogniser: Recogniser) -> None:
    reference, heard = [], []
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        for sentence in SENTENCES:
            audio = speak(client, sentence)
            seconds = len(audio) / SAMPLE_RATE_HZ
            assert 0.03 < seconds / len(sentence) < 0.12, f"{seconds:.2f} s for {sentence!r}"
            assert -36 < rms_dbfs(audio) < -12
            assert np.mean(np.abs(audio.astype(np.int32)) >= 32767) == 0, "clipped"
            quiet = np.abs(audio.astype(np.int32)) < 100
            assert quiet.mean() < 0.6, "mostly silence"
            reference.append(" ".join(words(sentence)))
            heard.append(" ".join(words(recogniser.transcribe(audio, SAMPLE_RATE_HZ))))
    error_rate = jiwer.wer(reference, heard)
    assert error_rate <= 0.10, list(zip(reference, heard, strict=True))


@pytest.mark.soak
@pytest.mark.asr
def test_a_long_text_loses_no_sentence(server: RunningServer, recogniser: Recogniser) -> None:
    text = " ".join(SENTENCES)
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        audio = speak(client, text)
    heard = " ".join(words(recogniser.transcribe(audio, SAMPLE_RATE_HZ)))
    assert jiwer.wer(" ".join(words(text)), heard) <= 0.10, heard


def test_every_door_gives_the_same_audio(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        by_grpc = speak(client, TEXT, seed=11)
    by_http = speak_http(server, TEXT, seed=11)
    by_http_json = speak_http(server, TEXT, binary=False, seed=11)
    status, body = generate(server, {"text": TEXT, "seed": 11})
    assert status == 200
    assert body["sample_rate"] == SAMPLE_RATE_HZ
    for other in (by_http, by_http_json, np.array(body["audio"], np.int16)):
        np.testing.assert_array_equal(by_grpc, other)


def test_the_seed_decides_the_audio_and_is_told_when_drawn(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        assert not np.array_equal(speak(client, TEXT, seed=1), speak(client, TEXT, seed=2))
    _, first = generate(server, {"text": TEXT})
    _, again = generate(server, {"text": TEXT, "seed": first["seed"]})
    assert first["audio"] == again["audio"]


def test_speed_changes_the_duration_in_proportion(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        normal = len(speak(client, TEXT, seed=3, speed=1.0))
        fast = len(speak(client, TEXT, seed=3, speed=2.0))
        slow = len(speak(client, TEXT, seed=3, speed=0.5))
    # durations are rounded up to whole frames for every phoneme, so the ratio stays somewhat below the speed
    assert normal / fast == pytest.approx(2, rel=0.25)
    assert slow / normal == pytest.approx(2, rel=0.25)


def test_noise_scales_change_the_audio(server: RunningServer) -> None:
    _, usual = generate(server, {"text": TEXT, "seed": 5})
    _, calm = generate(server, {"text": TEXT, "seed": 5, "noise_scale": 0.0, "noise_w_scale": 0.0})
    _, calm_other_seed = generate(server, {"text": TEXT, "seed": 6, "noise_scale": 0.0, "noise_w_scale": 0.0})
    assert usual["audio"] != calm["audio"]
    assert calm["audio"] == calm_other_seed["audio"]


def test_an_unmodified_tritonclient_script_works(server: RunningServer, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy, tritonclient.grpc as g\n"
        "client = g.InferenceServerClient(sys.argv[1])\n"
        "assert client.is_server_ready() and client.is_model_ready('en-joe')\n"
        "text = g.InferInput('text', [1, 1], 'BYTES')\n"
        "text.set_data_from_numpy(numpy.array([[b'Hello.']], dtype=object))\n"
        "result = client.infer('en-joe', [text])\n"
        "print(result.as_numpy('audio').shape[1])\n"
    )
    result = subprocess.run(
        [sys.executable, str(script), server.grpc_url], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > SAMPLE_RATE_HZ / 4


def test_metrics_count_requests_and_carry_the_engines(server: RunningServer) -> None:
    generate(server, {"text": TEXT})
    with urllib.request.urlopen(f"http://{server.metrics_url}", timeout=10) as answer:
        text = answer.read().decode()
    served = [line for line in text.splitlines() if line.startswith("voxrepo_requests_total{") and "generate" in line]
    assert any('code="OK"' in line and 'model="en-joe"' in line and 'arm="stable"' in line for line in served), served
    assert 'nv_inference_request_success{model="en-joe.vocoder"' in text
