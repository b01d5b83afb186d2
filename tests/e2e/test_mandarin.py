"""The Mandarin voice beside the English one, through the whole server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import rms_dbfs, speak
from tests.harness import MANDARIN_VOICE, VOICE, RunningServer, clone_root, running_server
from tests.mandarin import SENTENCES, error_rates
from tests.recogniser import Recogniser

pytestmark = pytest.mark.e2e

SAMPLE_RATE_HZ = 24_000
PROMPT = "以下是普通话的句子。"
"""Makes the recogniser write simplified characters."""


@pytest.fixture(scope="module")
def both(voice_root: Path, mandarin_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Both voices in one server."""
    root = clone_root(voice_root, tmp_path_factory.mktemp("both") / "root")
    for folder in ("model_repository", "ensembles"):
        for entry in (mandarin_root / folder).iterdir():
            if entry.name.startswith(MANDARIN_VOICE):
                shutil.copytree(entry, root / folder / entry.name)
    with running_server(root) as server:
        yield server


def say(client: grpc_client.InferenceServerClient, text: str, **options: Any) -> npt.NDArray[np.int16]:
    return speak(client, text, voice=MANDARIN_VOICE, rate_hz=SAMPLE_RATE_HZ, **options)


@pytest.mark.asr
@pytest.mark.parametrize("count", [20, pytest.param(50, marks=pytest.mark.soak)])
def test_a_recogniser_understands_it(both: RunningServer, recogniser: Recogniser, count: int) -> None:
    sentences = list(SENTENCES[:count])
    heard = []
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        for sentence in sentences:
            audio = say(client, sentence)
            assert 0.1 < len(audio) / SAMPLE_RATE_HZ / len(sentence) < 0.4, sentence
            assert -36 < rms_dbfs(audio) < -12, sentence
            assert np.mean(np.abs(audio.astype(np.int32)) >= 32767) == 0, "clipped"
            heard.append(recogniser.transcribe(audio, SAMPLE_RATE_HZ, "zh", PROMPT))
    by_character, by_syllable = error_rates(sentences, heard)
    assert by_character <= 0.14, (by_character, heard)
    assert by_syllable <= 0.05, (by_syllable, heard)


def test_both_voices_are_served_at_once_each_with_its_own_stages(both: RunningServer) -> None:
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        english, mandarin = speak(client, "Good morning."), say(client, "早上好。")
        for voice in (VOICE, MANDARIN_VOICE):
            assert client.is_model_ready(voice)
    assert -36 < rms_dbfs(english) < -12 and -36 < rms_dbfs(mandarin) < -12


def test_the_seed_does_not_change_a_voice_without_noise(both: RunningServer) -> None:
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        np.testing.assert_array_equal(say(client, SENTENCES[0], seed=1), say(client, SENTENCES[0], seed=2))


def test_speed_changes_the_duration_in_proportion(both: RunningServer) -> None:
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        normal = len(say(client, SENTENCES[0]))
        assert normal / len(say(client, SENTENCES[0], speed=2.0)) == pytest.approx(2, rel=0.15)
        assert len(say(client, SENTENCES[0], speed=0.5)) / normal == pytest.approx(2, rel=0.15)


def test_the_shortest_text_at_the_highest_speed_is_spoken(both: RunningServer) -> None:
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        audio = say(client, "啊", speed=4.0)
    # fewer frames than the vocoder's reflections need
    assert 0.03 < len(audio) / SAMPLE_RATE_HZ < 0.4
    assert rms_dbfs(audio) > -60


def test_a_long_text_is_as_long_as_its_sentences(both: RunningServer) -> None:
    with grpc_client.InferenceServerClient(both.grpc_url) as client:
        alone = sum(len(say(client, sentence)) for sentence in SENTENCES[:8])
        together = len(say(client, "".join(SENTENCES[:8])))
    pauses = 7 * SAMPLE_RATE_HZ * 150 // 1000
    assert together == pytest.approx(alone + pauses, rel=0.05)
