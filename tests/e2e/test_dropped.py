"""What a real server does not speak is counted, and normalisation can be switched off."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from tests.e2e.calls import generate, inputs_for
from tests.harness import VOICE, RunningServer

pytestmark = pytest.mark.e2e

TEXT = "Good morning 😀😀, dear \u200bfriends."
COUNTS = {"emoji": 2, "invisible": 1}


def counter(server: RunningServer, reason: str) -> float:
    with urllib.request.urlopen(f"http://{server.metrics_url}", timeout=10) as page:
        lines = page.read().decode().splitlines()
    start = f'voxrepo_dropped_characters_total{{model="{VOICE}",reason="{reason}"}} '
    return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def test_what_is_left_out_is_in_the_answer_and_in_the_metric(server: RunningServer) -> None:
    before = {reason: counter(server, reason) for reason in COUNTS}
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        answer = client.infer(VOICE, inputs_for(grpc_client, TEXT)).get_response()
        plain = client.infer(VOICE, inputs_for(grpc_client, "Good morning, dear friends.")).get_response()
    assert json.loads(answer.parameters["dropped"].string_param) == COUNTS
    assert plain.parameters["dropped"].string_param == "{}"
    assert {output.name for output in answer.outputs} == {"audio", "sample_rate"}
    assert len(answer.raw_output_contents) == 2
    assert {reason: counter(server, reason) - count for reason, count in before.items()} == COUNTS


def test_clients_see_audio_and_sample_rate_alone(server: RunningServer) -> None:
    with http_client.InferenceServerClient(server.http_url) as client:
        wanted = [http_client.InferRequestedOutput("sample_rate", binary_data=False)]
        answer = client.infer(VOICE, inputs_for(http_client, TEXT), outputs=wanted).get_response()
        metadata = client.get_model_metadata(VOICE)
        config = client.get_model_config(VOICE)
    assert [output["name"] for output in answer["outputs"]] == ["sample_rate"]
    assert json.loads(answer["parameters"]["dropped"]) == COUNTS
    assert {output["name"] for output in metadata["outputs"]} == {"audio", "sample_rate"}
    assert {output["name"] for output in config["output"]} == {"audio", "sample_rate"}


def test_normalisation_can_be_switched_off_per_request_at_every_door(server: RunningServer) -> None:
    text = "Call 555-0142 on 3/4/2024."

    def grpc_audio(**options: Any) -> Any:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            return client.infer(VOICE, inputs_for(grpc_client, text), **options).as_numpy("audio")[0]

    on, off = grpc_audio(), grpc_audio(parameters={"normalise": False})
    assert not np.array_equal(on, off)
    np.testing.assert_array_equal(on, grpc_audio(parameters={"normalise": True}))
    status, document = generate(server, {"text": text, "seed": 7, "normalise": False})
    assert status == 200
    np.testing.assert_array_equal(document["audio"], off)
    with http_client.InferenceServerClient(server.http_url) as client:
        result = client.infer(VOICE, inputs_for(http_client, text), parameters={"normalise": False})
    np.testing.assert_array_equal(result.as_numpy("audio")[0], off)


def test_normalise_must_be_a_bool(server: RunningServer) -> None:
    status, document = generate(server, {"text": "Hi.", "normalise": "no"})
    assert status == 400
    assert "'normalise' is 'no'; it must be true or false" in document["error"]


def test_a_text_of_which_nothing_is_left_names_what_was_dropped(server: RunningServer) -> None:
    status, document = generate(server, {"text": "😀😀"})
    assert status == 400
    assert "2 emoji" in document["error"]
