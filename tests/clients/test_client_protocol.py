"""Requests, answers, addresses and statuses: the pure parts of the client."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from voxrepo_client import (
    BadResponse,
    ConnectionFailed,
    InvalidRequest,
    NotPermitted,
    ServerBusy,
    ServerError,
    TimedOut,
    VoiceNotFound,
    VoxrepoClientError,
)
from voxrepo_client.address import Address, parse_address
from voxrepo_client.protocol import InferAnswer, build_call, check_timeout_s, parse_answer, parse_dropped, timeout_us
from voxrepo_client.status import error_from_grpc, error_from_http, parse_retry_after_s
from voxrepo_client.voice_info import is_voice, ready_names, voice_info


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("localhost:8001", Address("grpc", "localhost", 8001)),
        ("tts.example", Address("grpc", "tts.example", 8001)),
        ("grpc://10.0.0.7:9000", Address("grpc", "10.0.0.7", 9000)),
        ("grpcs://tts.example", Address("grpc", "tts.example", 443, tls=True)),
        ("http://localhost:8000", Address("http", "localhost", 8000)),
        ("http://tts.example/speech/", Address("http", "tts.example", 80, path="/speech")),
        ("https://tts.example", Address("http", "tts.example", 443, tls=True)),
        ("[::1]:8001", Address("grpc", "::1", 8001)),
        ("http://[::1]:8000", Address("http", "::1", 8000)),
    ],
)
def test_reads_an_address(url, address):
    assert parse_address(url) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("localhost", True),
        ("127.0.0.1:1", True),
        ("http://127.8.8.8", True),
        ("[::1]:8001", True),
        ("10.0.0.7", False),
        ("tts.example", False),
        ("localhost.example", False),
    ],
)
def test_knows_a_server_of_the_same_machine(url, is_loopback):
    assert parse_address(url).is_loopback is is_loopback


def test_takes_the_address_from_the_environment_and_then_the_default(monkeypatch):
    monkeypatch.setenv("VOXREPO_URL", "http://tts.example:81")
    assert parse_address() == Address("http", "tts.example", 81)
    assert parse_address("localhost:5").port == 5
    monkeypatch.delenv("VOXREPO_URL")
    assert parse_address() == Address("grpc", "localhost", 8001)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host", "ftp"),
        ("", "no host"),
        ("grpc://", "no host"),
        ("host name:8001", "no host"),
        ("localhost:80000", "80000"),
        ("localhost:port", "port"),
        ("http://user:secret@host", "headers"),
        ("http://host/?a=b", "only scheme"),
        ("grpc://host:1/path", "path"),
    ],
)
def test_refuses_an_address_that_it_does_not_understand(url, says):
    with pytest.raises(InvalidRequest, match=says):
        parse_address(url)


def test_builds_a_request_with_only_what_was_given():
    call = build_call("en-joe", "Grüß dich.")
    assert call.model == "en-joe"
    assert {name: (array.dtype, array.shape) for name, array in call.inputs.items()} == {
        "text": (np.dtype(object), (1, 1)),
        "speed": (np.dtype(np.float32), (1, 1)),
    }
    assert call.inputs["text"][0, 0] == "Grüß dich.".encode()
    assert call.inputs["speed"][0, 0] == 1.0
    assert call.parameters == {}


def test_builds_a_request_with_everything():
    call = build_call("v", "a", speed=2, speaker="Zoë", seed=-(2**63), noise_scale=0, noise_w_scale=1.5)
    assert call.inputs["speaker"][0, 0] == "Zoë".encode()
    assert call.inputs["seed"].dtype == np.int64
    assert call.inputs["seed"][0, 0] == -(2**63)
    assert call.parameters == {"noise_scale": 0.0, "noise_w_scale": 1.5}
    assert all(type(value) is float for value in call.parameters.values())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text": b"bytes"}, "text must be a str, not bytes"),
        ({"text": None}, "text must be a str, not NoneType"),
        ({"text": "ab\ud800"}, r"U\+D800 at character 2"),
        ({"speaker": 3}, "speaker must be a str"),
        ({"speed": "fast"}, "speed must be a number"),
        ({"speed": True}, "speed must be a number"),
        ({"speed": 10**400}, "speed is too large"),
        ({"seed": 1.0}, "seed must be an integer"),
        ({"seed": True}, "seed must be an integer"),
        ({"seed": 2**63}, "64 bits"),
        ({"noise_scale": math.nan}, "noise_scale is nan"),
        ({"noise_w_scale": -math.inf}, "noise_w_scale is -inf"),
        ({"voice": ""}, "name of a voice"),
    ],
)
def test_refuses_what_cannot_be_put_on_the_wire(arguments, says):
    with pytest.raises(InvalidRequest, match=says) as caught:
        build_call(**{"voice": "v", "text": "a", **arguments})
    assert caught.value.code is None


@pytest.mark.parametrize("timeout_s", [0, -1, math.nan, math.inf, 1e9, "1", True])
def test_refuses_a_time_limit_that_is_none(timeout_s):
    with pytest.raises(InvalidRequest, match="timeout_s"):
        check_timeout_s(timeout_s)


def test_tells_the_server_whole_microseconds():
    assert timeout_us(None) is None
    assert timeout_us(1.5) == 1_500_000
    assert timeout_us(1e-9) == 1


def _answer(**changed):
    outputs: dict[str, Any] = {
        "audio": np.arange(4, dtype=np.int16).reshape(1, 4),
        "sample_rate": np.array([[22050]], np.int32),
        **changed,
    }
    return InferAnswer(outputs, {"seed": 3, "versions": '{"acoustic": 2}'})


def test_reads_an_answer_into_samples_of_its_own():
    answer = _answer()
    answer.outputs["audio"].flags.writeable = False
    speech = parse_answer(answer)
    assert speech.samples.tolist() == [0, 1, 2, 3]
    assert speech.samples.flags.writeable
    assert (speech.sample_rate_hz, speech.seed, speech.versions) == (22050, 3, {"acoustic": 2})


def test_reads_an_answer_of_a_server_without_the_extra_parameters():
    speech = parse_answer(InferAnswer(_answer().outputs))
    assert (speech.seed, speech.versions) == (None, {})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"audio": None}, "no output 'audio'"),
        ({"sample_rate": None}, "no output 'sample_rate'"),
        ({"audio": np.zeros((1, 4), np.float32)}, "float32"),
        ({"audio": np.zeros((2, 4), np.int16)}, r"\[2, 4\]"),
        ({"sample_rate": np.zeros((1, 1), np.int32)}, "sample_rate"),
        ({"sample_rate": np.ones((1, 2), np.int32)}, "sample_rate"),
        ({"sample_rate": np.full((1, 1), 22050.0)}, "sample_rate"),
    ],
)
def test_refuses_an_answer_that_is_no_speech(changed, says):
    with pytest.raises(BadResponse, match=says):
        parse_answer(_answer(**changed))


@pytest.mark.parametrize("versions", ["{", "[1]", '{"a": "x"}', "3", '{"a": Infinity}'])
def test_refuses_versions_that_are_not_an_object_of_integers(versions):
    with pytest.raises(BadResponse, match="versions"):
        parse_answer(InferAnswer(_answer().outputs, {"versions": versions}))


@pytest.mark.parametrize("seed", ["x", 1.5])
def test_refuses_a_seed_that_is_no_integer(seed):
    with pytest.raises(BadResponse, match="'seed' is"):
        parse_answer(InferAnswer(_answer().outputs, {"seed": seed}))


def _grpc(code, details="text", metadata=None, debug=""):
    return error_from_grpc(code, details, metadata=metadata or {}, debug=debug, address="grpc://h:1")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", InvalidRequest),
        ("StatusCode.INVALID_ARGUMENT", InvalidRequest),
        ("OUT_OF_RANGE", InvalidRequest),
        ("NOT_FOUND", VoiceNotFound),
        ("UNAUTHENTICATED", NotPermitted),
        ("PERMISSION_DENIED", NotPermitted),
        ("UNAVAILABLE", ServerBusy),
        ("RESOURCE_EXHAUSTED", ServerBusy),
        ("DEADLINE_EXCEEDED", TimedOut),
        ("CANCELLED", ConnectionFailed),
        ("INTERNAL", ServerError),
        ("UNIMPLEMENTED", ServerError),
        ("UNKNOWN", ServerError),
    ],
)
def test_maps_every_grpc_status(code, kind):
    error = _grpc(code)
    assert type(error) is kind
    assert error.code == code.removeprefix("StatusCode.")
    assert "text" in str(error)


@pytest.mark.parametrize(
    "details",
    [
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused",
        "errors resolving nosuch.invalid:1: [field:hostname lookup error]",
        "Socket closed",
        "Cancelling all calls",
        "Trying to connect an http1.x server",
        "recvmsg:Connection reset by peer",
    ],
)
def test_tells_a_broken_connection_from_a_busy_server(details):
    assert type(_grpc("UNAVAILABLE", details)) is ConnectionFailed
    # the same words from the server itself are the server's answer
    assert type(_grpc("UNAVAILABLE", details, debug="Error received from peer ipv4:1.2.3.4:5")) is ServerBusy


def test_reads_how_long_to_wait_from_trailing_metadata():
    error = _grpc("UNAVAILABLE", "queue full", {"retry-after": "2.5"})
    assert isinstance(error, ServerBusy)
    assert error.retry_after_s == 2.5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("3", 3.0),
        ("0", 0.0),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_reads_retry_after(value, seconds):
    assert parse_retry_after_s(value) == seconds


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "text is blank", InvalidRequest),
        (413, "too large", InvalidRequest),
        (422, "no", InvalidRequest),
        (401, "key", NotPermitted),
        (403, "control", NotPermitted),
        (404, "unknown model 'x'", VoiceNotFound),
        (408, "slow", TimedOut),
        (504, "slow", TimedOut),
        (503, "timed out after 12 ms", TimedOut),
        (503, "queue full", ServerBusy),
        (429, "too many", ServerBusy),
        (500, "internal error", ServerError),
        (501, "no", ServerError),
        (302, "moved", ServerError),
    ],
)
def test_maps_every_http_status(status, text, kind):
    error = error_from_http(status, f'{{"error": "{text}"}}'.encode(), retry_after="4", address="http://h")
    assert type(error) is kind
    assert (str(error), error.code) == (text, str(status))
    if isinstance(error, ServerBusy):
        assert error.retry_after_s == 4


def test_understands_the_error_object_of_openai():
    error = error_from_http(400, b'{"error": {"message": "no", "code": null}}', retry_after=None, address="a")
    assert str(error) == "no"


@pytest.mark.parametrize("body", [b"", b"<html>Not Found</html>", b"\xff\xfe", b'{"detail": "x"}', b"[" * 100_000])
def test_shows_the_start_of_an_answer_that_is_not_of_the_protocol(body):
    error = error_from_http(404, body, retry_after=None, address="http://h:80")
    assert isinstance(error, BadResponse)
    assert "http://h:80" in str(error)
    assert "404" in str(error)
    assert len(str(error)) < 500


def test_every_error_is_of_one_family():
    for kind in (BadResponse, ConnectionFailed, InvalidRequest, NotPermitted, ServerBusy, TimedOut, VoiceNotFound):
        assert issubclass(kind, VoxrepoClientError)


def test_lists_ready_models_once():
    index = [
        {"name": "b", "version": "1", "state": "READY"},
        {"name": "a", "version": "1", "state": "READY"},
        {"name": "a", "version": "2", "state": "READY"},
        {"name": "c", "version": "1", "state": "UNAVAILABLE"},
        {"name": "d"},
    ]
    assert ready_names(index) == ["a", "b"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "config", "voice"),
    [
        (["text", "seed"], ["audio", "sample_rate"], {}, True),
        (["text"], ["audio"], {}, False),
        (["features"], ["audio", "sample_rate"], {}, False),
        (["text"], ["audio", "sample_rate"], {"model_transaction_policy": {"decoupled": True}}, False),
    ],
)
def test_knows_a_voice_by_its_tensors(inputs, outputs, config, voice):
    metadata = {"inputs": [{"name": n} for n in inputs], "outputs": [{"name": n} for n in outputs]}
    assert is_voice(metadata, config) is voice


def test_reads_a_voice_of_a_server_that_says_nothing_about_it():
    info = voice_info("v", {})
    assert (info.language, info.sample_rate_hz, info.speakers, info.max_text_chars) == (None, None, (), None)


@pytest.mark.parametrize(
    ("key", "value"), [("speakers", "joe"), ("speakers", "[1]"), ("max_text_chars", "many"), ("versions", "1")]
)
def test_names_the_detail_of_a_voice_that_is_wrong(key, value):
    with pytest.raises(BadResponse, match=key):
        voice_info("v", {"parameters": {f"voxrepo.{key}": {"string_value": value}}})


@pytest.mark.parametrize("value", [True, False])
def test_normalise_is_a_parameter_only_if_given(value):
    assert build_call("v", "a", normalise=value).parameters == {"normalise": value}
    assert build_call("v", "a").parameters == {}


@pytest.mark.parametrize("value", [0, "false", 1.0])
def test_normalise_must_be_a_bool(value):
    with pytest.raises(InvalidRequest, match="normalise must be a bool"):
        build_call("v", "a", normalise=value)


@pytest.mark.parametrize(("value", "read"), [(None, {}), ("{}", {}), ('{"emoji": 2}', {"emoji": 2})])
def test_reads_what_was_dropped(value, read):
    assert parse_dropped(value) == read


@pytest.mark.parametrize("value", ["[]", "x", '{"emoji": "many"}'])
def test_refuses_drops_that_are_no_counts(value):
    with pytest.raises(BadResponse, match="'dropped'"):
        parse_dropped(value)
