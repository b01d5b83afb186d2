"""Bad input gets INVALID_ARGUMENT / 400 with input and limit; nobody else suffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import generate, inputs_for, speak
from tests.harness import VOICE, RunningServer

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text": ""}, ["text", "empty"]),
        ({"text": "  \n\t "}, ["text"]),
        ({"text": "..."}, ["text", "speakable"]),
        ({"text": "\N{GRINNING FACE}"}, ["text", "speakable"]),
        ({"text": "a" * 4097}, ["text", "4097", "4096"]),
        ({"text": "nul \x00 inside"}, ["text", "NUL"]),
        ({"text": "\u4f60\u597d"}, ["text"]),
        ({"text": "fast", "speed": 4.5}, ["speed", "4.5", "4"]),
        ({"text": "slow", "speed": 0.2}, ["speed", "0.25"]),
        ({"text": "who", "speaker": "nobody"}, ["speaker", "nobody", "default"]),
        ({"text": "typo", "sped": 1.5}, ["sped"]),
        ({"text": "loud", "noise_scale": 5.0}, ["noise_scale"]),
        ({"txt": "no text"}, ["text"]),
        ({"text": ["two", "texts"]}, ["text"]),
        ({"text": 17}, ["text"]),
    ],
)
def test_generate_names_input_and_limit(server: RunningServer, body: dict[str, Any], words: list[str]) -> None:
    status, answer = generate(server, body)
    assert status == 400, answer
    for word in words:
        assert word.lower() in answer["error"].lower(), answer


def bad_tensors() -> dict[str, list[Any]]:
    def tensor(name: str, value: Any, dtype: str) -> Any:
        made = grpc_client.InferInput(name, list(value.shape), dtype)
        made.set_data_from_numpy(value)
        return made

    good = inputs_for(grpc_client, "fine")
    two = np.array([[b"one"], [b"two"]], dtype=np.object_)
    return {
        "batch axis": [tensor("text", two, "BYTES")],
        "utf-8": [tensor("text", np.array([[b"\xff\xfe"]], dtype=np.object_), "BYTES")],
        "speed": [*good, tensor("speed", np.array([[np.nan]], np.float32), "FP32")],
        "seed": [good[0], tensor("seed", np.array([[1]], np.int32), "INT32")],
        "unknown": [*good, tensor("pitch", np.array([[1.0]], np.float32), "FP32")],
    }


@pytest.mark.parametrize("case", ["batch axis", "utf-8", "speed", "seed", "unknown"])
def test_grpc_says_invalid_argument(server: RunningServer, case: str) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer(VOICE, bad_tensors()[case])
        assert "INVALID_ARGUMENT" in str(caught.value.status())
        assert len(speak(client, "The next one is fine.")) > 0


def test_an_unknown_voice_is_404_and_lists_what_there_is(server: RunningServer) -> None:
    status, answer = generate(server, {"text": "hello"}, voice="no-such-voice")
    assert status == 404
    assert "no-such-voice" in answer["error"]
    assert VOICE in answer["error"]


def test_a_stage_cannot_be_called_past_the_limits_of_its_voice(server: RunningServer) -> None:
    status, answer = generate(server, {"text": "a" * 5000}, voice=f"{VOICE}.text_frontend")
    assert status == 403
    assert "call the voice" in answer["error"]


def test_control_calls_are_refused(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        for call in (
            lambda: client.unload_model(VOICE),
            lambda: client.load_model(VOICE),
            lambda: client.register_system_shared_memory("region", "/key", 64),
            lambda: client.update_log_settings({"log_verbose_level": 5}),
        ):
            with pytest.raises(InferenceServerException) as caught:
                call()
            assert "PERMISSION_DENIED" in str(caught.value.status())
        assert len(speak(client, "Still loaded.")) > 0
