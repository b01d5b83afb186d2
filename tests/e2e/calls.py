"""Plain calls to a server, as an ordinary Triton client makes them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import numpy as np
import numpy.typing as npt
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from tests.harness import VOICE, RunningServer

Audio = npt.NDArray[np.int16]
SAMPLE_RATE_HZ = 22_050

SENTENCES = (
    "The train to the coast leaves at ten in the morning.",
    "Could you turn the lights down a little, please?",
    "Rain is expected in the evening, with strong wind along the hills.",
    "Your parcel has arrived and waits for you at the front desk.",
    "She opened the old book carefully and began to read aloud.",
    "We need three apples, a loaf of bread and some butter.",
    "The meeting was moved to Thursday because the room was taken.",
    "Good night, and thank you for everything you did today.",
    "My brother works as a doctor in a small hospital near the river.",
    "The children are playing football behind the school.",
    "Please close the window before you leave the house.",
    "He bought a new bicycle and rode it home in the rain.",
    "The museum is open every day except Monday.",
    "I would like a cup of tea with milk and no sugar.",
    "The road was blocked by a fallen tree after the storm.",
    "They have lived in the same village for twenty years.",
    "The teacher asked the students to write a short story.",
    "A cold wind came down from the mountains at night.",
    "We will meet in front of the station at half past seven.",
    "The garden is full of flowers in the spring.",
)


def inputs_for(module: Any, text: str, seed: int | None = 7, speed: float | None = None) -> list[Any]:
    """Input tensors of ``module`` (tritonclient.grpc or .http)."""
    tensors = [module.InferInput("text", [1, 1], "BYTES")]
    tensors[0].set_data_from_numpy(np.array([[text.encode()]], dtype=np.object_))
    if seed is not None:
        tensors.append(module.InferInput("seed", [1, 1], "INT64"))
        tensors[-1].set_data_from_numpy(np.array([[seed]], dtype=np.int64))
    if speed is not None:
        tensors.append(module.InferInput("speed", [1, 1], "FP32"))
        tensors[-1].set_data_from_numpy(np.array([[speed]], dtype=np.float32))
    return tensors


def speak(client: Any, text: str, voice: str = VOICE, rate_hz: int = SAMPLE_RATE_HZ, **options: Any) -> Audio:
    """Audio of ``text`` through a tritonclient gRPC client."""
    result = client.infer(voice, inputs_for(grpc_client, text, **options))
    audio: Audio = result.as_numpy("audio")[0]
    assert audio.dtype == np.int16
    assert result.as_numpy("sample_rate").tolist() == [[rate_hz]]
    return audio


def speak_http(server: RunningServer, text: str, binary: bool = True, **options: Any) -> Audio:
    """Audio of ``text`` through a tritonclient HTTP client."""
    with http_client.InferenceServerClient(server.http_url) as client:
        wanted = [http_client.InferRequestedOutput("audio", binary_data=binary)]
        result = client.infer(VOICE, inputs_for(http_client, text, **options), outputs=wanted)
        audio: Audio = result.as_numpy("audio")[0]
        return audio


def generate(server: RunningServer, body: dict[str, Any], voice: str = VOICE) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of POST ``/generate``."""
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/{voice}/generate",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def rms_dbfs(audio: Audio) -> float:
    """Level relative to full scale."""
    return float(20 * np.log10(np.sqrt(np.mean((audio / 32768.0) ** 2)) + 1e-12))
