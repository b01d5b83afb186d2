"""What was not spoken: out of the engine's tensor, into a response parameter and a counter."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.dropped import take_dropped
from voxrepo_contract.errors import Internal

from .harness import EdgeProcess
from .test_protocols import post, tensors

VALUES = {"text": "samples 10 😀 🚀"}
SERIES = "voxrepo_dropped_characters_total"


def answer(*names: str, dropped: bytes = b'{"emoji": 2}', datatype: str = "BYTES") -> Any:
    response = pb.ModelInferResponse()
    contents = {"audio": b"aa", "sample_rate": b"rrrr", "dropped": struct.pack("<I", len(dropped)) + dropped}
    for name in names:
        response.outputs.add(name=name, datatype=datatype if name == "dropped" else "INT16", shape=[1, 1])
        response.raw_output_contents.append(contents[name])
    return response


@pytest.mark.parametrize("names", [("dropped", "audio"), ("audio", "dropped", "sample_rate"), ("dropped",)])
def test_takes_the_output_and_its_content_wherever_they_stand(names: tuple[str, ...]) -> None:
    response = answer(*names)
    assert take_dropped(response) == {"emoji": 2}
    assert response == answer(*(name for name in names if name != "dropped"))


@pytest.mark.parametrize("dropped", [b"", b"[]", b"nonsense", b'{"emoji": "2"}', b'{"emoji": -1}', b"\xff", b"{" * 9])
def test_refuses_counts_that_are_none(dropped: bytes) -> None:
    with pytest.raises(Internal, match="not a JSON object of counts"):
        take_dropped(answer("audio", "dropped", dropped=dropped))


def test_refuses_an_answer_without_the_output() -> None:
    with pytest.raises(Internal, match="no output 'dropped'"):
        take_dropped(answer("audio"))


def test_clients_get_a_parameter_and_no_tensor_over_every_door(edge: EdgeProcess) -> None:
    before = edge.metric(SERIES, model="en-test", reason="emoji")
    with tg.InferenceServerClient(edge.grpc) as client:
        response = client.infer("en-test", tensors(tg, VALUES)).get_response()
        named = client.infer("en-test", tensors(tg, VALUES), outputs=[tg.InferRequestedOutput("sample_rate")])
    assert {output.name for output in response.outputs} == {"audio", "sample_rate"}
    assert len(response.raw_output_contents) == 2
    assert json.loads(response.parameters["dropped"].string_param) == {"emoji": 2}
    assert [output.name for output in named.get_response().outputs] == ["sample_rate"]
    assert json.loads(named.get_response().parameters["dropped"].string_param) == {"emoji": 2}
    with th.InferenceServerClient(edge.http) as client:
        wanted = [th.InferRequestedOutput("audio", binary_data=True)]
        binary = client.infer("en-test", tensors(th, VALUES), outputs=wanted).get_response()
    assert [output["name"] for output in binary["outputs"]] == ["audio"]
    assert json.loads(binary["parameters"]["dropped"]) == {"emoji": 2}
    document = json.loads(post(edge, "/v2/models/en-test/generate", VALUES)[1])
    assert json.loads(document["dropped"]) == {"emoji": 2}
    assert edge.metric(SERIES, model="en-test", reason="emoji") == before + 4 * 2


def test_the_parameter_is_there_when_nothing_was_dropped(edge: EdgeProcess) -> None:
    before = edge.metric(SERIES)
    document = json.loads(post(edge, "/v2/models/en-test/generate", {"text": "samples 10"})[1])
    assert document["dropped"] == "{}"
    assert edge.metric(SERIES) == before


def test_descriptions_hide_the_output(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as client:
        metadata = client.get_model_metadata("en-test")
        config = client.get_model_config("en-test").config
        stage = client.get_model_metadata("en-test.echo")
    assert {tensor.name for tensor in metadata.outputs} == {"audio", "sample_rate"}
    assert {tensor.name for tensor in config.output} == {"audio", "sample_rate"}
    assert "dropped" in {tensor.name for tensor in stage.outputs}


def test_an_engine_that_counts_nonsense_is_a_fault_of_the_server(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as client, pytest.raises(Exception, match="not a JSON object") as caught:
        client.infer("en-test", tensors(tg, {"text": "nonsense"}))
    assert "INTERNAL" in str(caught.value)


def test_whether_to_normalise_reaches_the_stages(edge: EdgeProcess) -> None:
    # the model's audio depends on the parameters that it gets
    def audio(**options: Any) -> Any:
        return json.loads(post(edge, "/v2/models/en-test/generate", {"text": "hi", "seed": 3, **options})[1])["audio"]

    off = audio(normalise=False)
    assert off != audio() and off != audio(normalise=True)
    assert off == audio(parameters={"normalise": False})
    with tg.InferenceServerClient(edge.grpc) as client:
        result = client.infer("en-test", tensors(tg, {"text": "hi", "seed": 3}), parameters={"normalise": False})
    assert off == result.as_numpy("audio")[0].tolist()
