"""Small pure functions: error mapping, compression policy, views, wire format."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as config_pb
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge import jsonbody
from voxrepo.edge.compression import coding_for
from voxrepo.edge.engine_client import is_from_engine
from voxrepo.edge.engine_errors import clean, engine_error
from voxrepo.edge.listening import CannotListen, check_port
from voxrepo.edge.options import EdgeOptions, edge_command, parse_options
from voxrepo.edge.table import EdgeTable, Problem
from voxrepo.edge.views import correct_index, describe_voice, plain, plain_settings
from voxrepo.edge.wire import parsed, serialize_response, serialize_stream_response, varint
from voxrepo_contract.errors import Internal, InvalidArgument, Unavailable, Unimplemented

from .harness import voice


def test_ensemble_prefixes_are_stripped() -> None:
    assert clean("[request id: 4f] in ensemble 'en-joe', in ensemble 'b', nothing to say") == "nothing to say"
    assert clean("text mentions in ensemble 'x', later") == "text mentions in ensemble 'x', later"


@pytest.mark.parametrize("code", ["INTERNAL", "UNKNOWN", "DATA_LOSS", "RESOURCE_EXHAUSTED"])
def test_faults_of_the_engine_are_masked(code: str) -> None:
    error = engine_error(code, "path /srv/secret", from_engine=True, request_id="ab12")
    assert type(error) is Internal
    assert str(error) == "internal error, id ab12; see the server's log"


def test_transport_errors_do_not_tell_where_the_engine_is() -> None:
    error = engine_error("UNAVAILABLE", "connect unix:/run/x", from_engine=False, request_id="a")
    assert type(error) is Unavailable
    assert "/run" not in str(error)


def test_a_decoupled_model_is_refused_whatever_the_client_called() -> None:
    text = "ModelInfer RPC doesn't support models with decoupled transaction policy"
    error = engine_error("UNIMPLEMENTED", text, from_engine=True, request_id="a")
    assert type(error) is Unimplemented
    assert "any number of times" in str(error)
    assert "ModelInfer" not in str(error)


def test_an_engine_that_cancels_calls_is_stopping() -> None:
    assert type(engine_error("CANCELLED", "", from_engine=True, request_id="a")) is Unavailable


@pytest.mark.parametrize(
    ("code", "details", "connected", "from_engine"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses; last error: unix:/a: No such file", False, False),
        ("UNAVAILABLE", "Stream removed (Socket closed)", True, False),
        ("UNAVAILABLE", "Socket closed", False, False),
        ("UNAVAILABLE", "in ensemble 'v', the device is being restarted", True, True),
        ("INVALID_ARGUMENT", "connection refused is an odd thing to say", False, True),
    ],
)
def test_tells_an_absent_engine_from_one_that_refuses(
    code: str, details: str, connected: bool, from_engine: bool
) -> None:
    assert is_from_engine(code, details, connected) == from_engine


def test_refusals_of_the_engine_pass() -> None:
    error = engine_error("INVALID_ARGUMENT", "in ensemble 'v', no words", from_engine=True, request_id="a")
    assert type(error) is InvalidArgument
    assert str(error) == "no words"


@pytest.mark.parametrize(
    ("accept", "is_binary", "coding"),
    [
        ("", False, None),
        ("gzip", True, "gzip"),
        ("deflate", True, "deflate"),
        ("gzip, deflate, br", True, None),
        ("gzip, deflate, br", False, "gzip"),
        ("gzip;q=0, deflate;q=0.5", False, "deflate"),
        ("identity", False, None),
        ("br", True, None),
        ("gzip;q=x", False, None),
    ],
)
def test_compresses_json_for_all_and_audio_for_those_who_ask(accept: str, is_binary: bool, coding: str | None) -> None:
    assert coding_for(accept, is_binary=is_binary, body_bytes=5000) == coding
    assert coding_for(accept, is_binary=is_binary, body_bytes=100) is None


def test_clients_see_all_inputs_but_the_text_as_optional_and_the_voices_properties() -> None:
    response = pb.ModelConfigResponse()
    for name in ("text", "speed", "speaker", "seed"):
        response.config.input.add(name=name)
    describe_voice(response, voice("v", speakers=["jörg"]))
    assert {t.name: t.optional for t in response.config.input} == {
        "text": False,
        "speed": True,
        "speaker": True,
        "seed": True,
    }
    assert {key: value.string_value for key, value in response.config.parameters.items()} == {
        "voxrepo.language": "en-US",
        "voxrepo.sample_rate_hz": "22050",
        "voxrepo.speakers": '["jörg"]',
        "voxrepo.max_text_chars": "200",
        "voxrepo.versions": '{"text_frontend": 1, "acoustic": 3, "vocoder": 2}',
    }


@pytest.mark.parametrize("ready_only", [False, True])
def test_the_index_never_calls_ready_what_is_not_served(ready_only: bool) -> None:
    index = pb.RepositoryIndexResponse()
    index.models.add(name="good", version="1", state="READY")
    index.models.add(name="mute", version="1", state="READY")
    index.models.add(name="coming", version="1", state="READY")
    index.models.add(name="unloaded", version="2", state="UNAVAILABLE", reason="unloaded")
    problems = [
        Problem(model="mute", reason="silent"),
        Problem(model="unloaded", reason="bad yaml"),
        Problem(model="unseen", reason="no stage.yaml"),
    ]
    table = EdgeTable(generation=1, loading=["coming"], problems=problems)
    correct_index(index, table, ready_only=ready_only)
    expected = [
        ("good", "1", "READY", ""),
        ("mute", "1", "UNAVAILABLE", "silent"),
        ("coming", "1", "LOADING", ""),
        ("unloaded", "2", "UNAVAILABLE", "bad yaml"),
        ("unseen", "", "UNAVAILABLE", "no stage.yaml"),
    ]
    found = [(m.name, m.version, m.state, m.reason) for m in index.models]
    assert found == [entry for entry in expected if not ready_only or entry[2] == "READY"]


@pytest.mark.parametrize(
    "options",
    [
        EdgeOptions(engine="unix:/run/e.sock:1", table=Path("/state/table.json")),
        EdgeOptions(
            engine="unix:/run/e.sock:1",
            table=Path("/mit Leerzeichen/table.json"),
            host="-",
            http_port=0,
            grpc_port=1,
            metrics_port=2,
            engine_metrics_url="http://127.0.0.1:3/metrics",
            drain_timeout_s=0.25,
            ready_file=Path("-ready.json"),
            max_body_bytes=4,
            max_engine_calls=5,
            max_queue_s=0.5,
            max_streams=0,
            max_streams_per_voice=7,
            max_utilisation=1.5,
            stall_timeout_s=8.0,
            log_text=True,
        ),
    ],
)
def test_the_edge_reads_the_command_line_that_is_written_for_it(options: EdgeOptions) -> None:
    program, *rest = edge_command(options)
    assert (program, rest[:2]) == (sys.executable, ["-m", "voxrepo.edge"])
    assert parse_options(rest[2:]) == options


def test_messages_become_json_that_protobuf_reads_back() -> None:
    config = config_pb.ModelConfig(name="m", max_batch_size=3)
    config.input.add(name="x", data_type=config_pb.TYPE_STRING, dims=[-1, 4])
    config.dynamic_batching.max_queue_delay_microseconds = 2**40
    config.parameters["a"].string_value = "b"
    document = plain(config)
    assert document["input"][0]["dims"] == [-1, 4]
    assert document["input"][0]["data_type"] == "TYPE_STRING"
    assert document["dynamic_batching"]["max_queue_delay_microseconds"] == 2**40
    assert "ensemble_scheduling" not in document
    assert document["max_batch_size"] == 3
    assert json_format.ParseDict(document, config_pb.ModelConfig()) == config


def test_settings_are_written_as_triton_writes_them() -> None:
    trace = pb.TraceSettingResponse()
    trace.settings["trace_level"].value.append("OFF")
    trace.settings["trace_rate"].value.append("1000")
    assert plain_settings(trace) == {"trace_level": ["OFF"], "trace_rate": "1000"}
    logs = pb.LogSettingsResponse()
    logs.settings["log_info"].bool_param = True
    logs.settings["log_verbose_level"].uint32_param = 2
    assert plain_settings(logs) == {"log_info": True, "log_verbose_level": 2}


@given(st.lists(st.binary(max_size=400), max_size=4), st.text(max_size=20))
def test_fast_serialisation_is_read_back_by_protobuf(tensors: list[bytes], identity: str) -> None:
    def build() -> object:
        response = pb.ModelInferResponse(model_name="m", id=identity, raw_output_contents=tensors)
        response.parameters["seed"].int64_param = 3
        for index in range(len(tensors)):
            response.outputs.add(name=str(index), shape=[1, 2])
        return response

    assert pb.ModelInferResponse.FromString(serialize_response(build())) == build()
    streamed = pb.ModelStreamInferResponse.FromString(serialize_stream_response(build()))
    assert streamed.infer_response == build()


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


TENSOR_OF_MANY_ELEMENTS = _field(5, _field(5, _field(8, b"") * 70_000))


@pytest.mark.parametrize(
    "raw",
    [
        _field(5, b"") * 70_000,
        _field(6, b"") * 70_000,
        _field(7, b"") * 70_000,
        _field(4, b"") * 70_000,
        _field(99, b"") * 70_000,
        b"\x08\x01" * 70_000,
        _field(5, _field(4, b"") * 70_000),
        TENSOR_OF_MANY_ELEMENTS,
        _field(5, _field(4, b"") * 40_000) + _field(5, _field(4, b"") * 40_000),
    ],
)
def test_a_request_of_many_small_fields_is_refused_before_it_is_parsed(raw: bytes) -> None:
    with pytest.raises(InvalidArgument, match="more than 65536 fields"):
        parsed(pb.ModelInferRequest, raw)


@given(
    st.lists(st.binary(max_size=300), max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40),
    st.lists(st.floats(width=32, allow_nan=False), max_size=40),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_requests_within_the_bounds_are_parsed_as_they_are(
    raw: list[bytes], shape: list[int], values: list[float], parameters: dict[str, str]
) -> None:
    request = pb.ModelInferRequest(model_name="m", raw_input_contents=raw)
    tensor = request.inputs.add(name="x", datatype="FP32", shape=shape)
    tensor.contents.fp32_contents.extend(values)
    tensor.contents.bytes_contents.extend(raw)
    request.outputs.add(name="y").parameters["binary_data"].bool_param = True
    for name, value in parameters.items():
        request.parameters[name].string_param = value
    assert parsed(pb.ModelInferRequest, request.SerializeToString()) == request


@given(st.binary(max_size=60))
def test_bytes_that_protobuf_refuses_are_refused_and_nothing_else_happens(raw: bytes) -> None:
    try:
        expected = pb.ModelInferRequest.FromString(raw)
    except DecodeError:
        expected = None
    try:
        assert parsed(pb.ModelInferRequest, raw) == expected
    except InvalidArgument as error:
        # groups, which protobuf skips as unknown, are refused too
        assert expected is None or any(byte & 7 in (3, 4) for byte in raw), error


def test_a_question_larger_than_any_name_is_refused() -> None:
    raw = pb.ModelReadyRequest(name="x" * 70_000).SerializeToString()
    with pytest.raises(InvalidArgument, match=r"ModelReadyRequest has 7.* bytes; the limit is 65536"):
        parsed(pb.ModelReadyRequest, raw)


def test_json_that_would_fill_the_memory_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidArgument, match="limit is 8388608: send tensors as binary data"):
        jsonbody.parse_object(b'{"inputs":[' + b"[]," * 3_000_000 + b"[]]}")


def test_an_address_of_another_machine_is_told_from_a_taken_port() -> None:
    with pytest.raises(CannotListen, match="choose an address of this machine with --host"):
        check_port("192.0.2.1", 0, "--http-port")


@pytest.mark.parametrize("ready_only", [False, True])
def test_the_index_lists_the_stream_of_a_voice_in_whatever_state_it_is(ready_only: bool) -> None:
    index = pb.RepositoryIndexResponse()
    index.models.add(name="good", version="1", state="READY")
    index.models.add(name="coming", version="1", state="READY")
    table = EdgeTable(
        generation=1,
        voices={"good": voice("good")},
        loading=["coming", "model"],
        problems=[Problem(model="mute", reason="silent")],
        unserved_voices=["coming", "mute"],
    )
    correct_index(index, table, ready_only=ready_only)
    expected = {
        "good": ("READY", ""),
        "good.stream": ("READY", ""),
        "coming": ("LOADING", ""),
        "coming.stream": ("LOADING", ""),
        "model": ("LOADING", ""),
        "mute": ("UNAVAILABLE", "silent"),
        "mute.stream": ("UNAVAILABLE", "silent"),
    }
    found = {entry.name: (entry.state, entry.reason) for entry in index.models}
    assert found == {name: row for name, row in expected.items() if not ready_only or row[0] == "READY"}


def test_a_version_that_is_not_served_leaves_the_others_ready() -> None:
    index = pb.RepositoryIndexResponse()
    index.models.add(name="m", version="1", state="READY")
    table = EdgeTable(generation=1, problems=[Problem(model="m", version="2", reason="it is empty")])
    correct_index(index, table, ready_only=False)
    assert [(entry.version, entry.state, entry.reason) for entry in index.models] == [
        ("1", "READY", ""),
        ("2", "UNAVAILABLE", "it is empty"),
    ]
    correct_index(index, table, ready_only=True)
    assert [entry.version for entry in index.models] == ["1"]
