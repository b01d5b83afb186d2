"""Texts of every length: pieces joined are the engine's own answer, no join is heard, and pieces never mix."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import numpy.typing as npt
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.calls import SENTENCES, Audio
from tests.e2e.streams import OWN_CONNECTION, SERVICE_METHOD, STREAM, listen, request_for, samples_of, unary
from tests.harness import VOICE, RunningServer, clone_root, edit_yaml, running_server
from voxrepo.edge.validation import voice_request

pytestmark = pytest.mark.e2e

LONGEST_CHARS = 4000
UNLIMITED = [("grpc.max_receive_message_length", -1)]
NEAR_SAMPLES = 220
"""10 ms: a join is compared with what is this near to it."""


def texts_of_every_length(count: int, seed: int) -> list[str]:
    """Texts of 1 to 4,000 characters, lengths spread evenly over their logarithm; marks, lines and digits included."""
    order = random.Random(seed)
    texts = []
    for number in range(count):
        chars = round(LONGEST_CHARS ** (number / (count - 1)))
        parts = ["A"]
        while sum(map(len, parts)) <= chars:
            sentence = order.choice(SENTENCES)
            kind = order.random()
            if kind < 0.2:
                sentence = " ".join(order.sample(sentence.split(), 3)) + order.choice("!?;:,")
            elif kind < 0.3:
                sentence = f"It took {order.randint(2, 9999)} steps, or {order.randint(1, 99)}.5 % of the way."
            parts.append(order.choice((" ", " ", "\n\n", "")) + sentence)
        texts.append("".join(parts)[:chars])
    return texts


def of_the_engine(server: RunningServer, text: str, seed: int, speed: float) -> Audio:
    """One call of the voice's ensemble, past the edge."""
    request = voice_request(VOICE, text, speed, "", seed, [], {})
    request.id = "equality"
    with grpc.insecure_channel(server.workspace.grpc_target, options=UNLIMITED) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        return samples_of(infer(request, timeout=300))


@pytest.mark.soak
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_streams_and_unary_answers_of_any_length_equal_the_engine_s_one_call(server: RunningServer, count: int) -> None:
    order = random.Random(count)
    texts = texts_of_every_length(count, seed=count)
    assert {len(text) for text in texts} >= {1, LONGEST_CHARS}
    pieces = 0
    for number, text in enumerate(texts):
        # long texts are spoken fast, or this takes all day
        speeds = (0.6, 1.0, 1.7) if len(text) < 500 else (2.0, 4.0)
        seed, speed = order.randrange(2**31), float(np.float32(order.choice(speeds)))
        expected = of_the_engine(server, text, seed, speed)
        heard = listen(server, text, seed=seed, speed=speed)
        np.testing.assert_array_equal(heard.joined, expected, err_msg=f"stream {number}: {text[:200]!r}")
        answer = unary(server, text, seed=seed, speed=speed)
        np.testing.assert_array_equal(answer, expected, err_msg=f"unary {number}: {text[:200]!r}")
        pieces += len(heard.pieces)
    assert pieces > 3 * count


def jumps(audio: Audio) -> npt.NDArray[np.int32]:
    """First differences; number i lies before sample i + 1."""
    differences: npt.NDArray[np.int32] = np.abs(np.diff(audio.astype(np.int32)))
    return differences


def rank(jump: npt.NDArray[np.int32], place: int) -> float:
    """Share of the differences around one that are smaller, those that are equal counted half."""
    near = np.concatenate(
        (jump[max(place - NEAR_SAMPLES, 0) : place], jump[place + 1 : place + 1 + NEAR_SAMPLES]),
    )
    return float((near < jump[place]).mean() + (near == jump[place]).mean() / 2)


@pytest.mark.soak
def test_joins_of_pieces_are_like_any_other_place_of_the_signal(server: RunningServer) -> None:
    """Not only equal to the unary answer: neither has a click where a window ends."""
    ranks, elsewhere = [], []
    order = np.random.default_rng(5)
    for number in range(10):
        # without full stops, so that many pieces end within speech and not in the pause after a sentence
        text = ", ".join(sentence.rstrip(".?").lower() for sentence in SENTENCES[number : number + 5])
        heard = listen(server, text, seed=number, speed=0.7)
        jump = jumps(heard.joined)
        joins = np.cumsum([len(piece) for piece in heard.pieces])[:-1] - 1
        apart = np.ones(len(jump), bool)
        apart[joins] = False
        assert jump[joins].max() <= jump[apart].max()
        # joins in the silence between sentences say nothing
        ranks += [rank(jump, place) for place in joins if jump[place - 5 : place].any()]
        speech = np.flatnonzero(jump[NEAR_SAMPLES:-NEAR_SAMPLES]) + NEAR_SAMPLES
        elsewhere += [rank(jump, place) for place in order.choice(speech, 200)]
    # both are spread evenly over 0 to 1; a click at the joins would push theirs to the top
    deviation = np.std(elsewhere) / np.sqrt(len(ranks))
    print(
        f"{len(ranks)} joins: rank {np.mean(ranks):.3f}, elsewhere {np.mean(elsewhere):.3f}, {deviation:.3f} expected"
    )
    assert len(ranks) > 40
    assert np.mean(ranks) < np.mean(elsewhere) + 4 * deviation
    assert np.mean(np.array(ranks) > 0.98) < 0.02 + 4 * np.sqrt(0.02 / len(ranks))


@pytest.fixture
def two_vocoders(voice_root: Path, tmp_path: Path) -> Iterator[RunningServer]:
    root = clone_root(voice_root, tmp_path / "root")
    edit_yaml(root / "ensembles" / VOICE / "voice.yaml", stages__vocoder__instances=2)
    # whether they keep ahead of playback is not the question here
    with running_server(root, "--max-queue", "0", "--max-utilisation", "0") as server:
        yield server


def streams_on_one_call(server: RunningServer, texts: dict[str, str]) -> dict[str, list[Audio]]:
    """Pieces by request id; all requests are sent at once, each id is its seed."""
    pieces: dict[str, list[Audio]] = {identity: [] for identity in texts}
    requests = [request_for(text, int(identity), STREAM, identity) for identity, text in texts.items()]
    with grpc.insecure_channel(server.grpc_url, options=[*UNLIMITED, *OWN_CONNECTION]) as channel:
        call = channel.stream_stream(
            SERVICE_METHOD,
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        for message in call(iter(requests), timeout=300):
            assert not message.error_message
            pieces[message.infer_response.id].append(samples_of(message.infer_response))
    return pieces


@pytest.mark.soak
def test_pieces_of_32_streams_come_in_order_from_two_vocoders(two_vocoders: RunningServer) -> None:
    texts = {
        str(number): f"Stream {number}. {SENTENCES[number % 20]} {SENTENCES[(number * 3 + 1) % 20]}"
        for number in range(32)
    }
    expected = {identity: unary(two_vocoders, text, seed=int(identity)) for identity, text in texts.items()}
    # half of them on connections of their own, half on two that they share
    own, one, other = (dict(list(texts.items())[part]) for part in (slice(16), slice(16, 24), slice(24, 32)))
    groups = [{identity: text} for identity, text in own.items()] + [one, other]
    with ThreadPoolExecutor(len(groups)) as pool:
        answers = list(pool.map(lambda group: streams_on_one_call(two_vocoders, group), groups))
    heard = {identity: pieces for answer in answers for identity, pieces in answer.items()}
    assert len(heard) == 32
    for identity, pieces in heard.items():
        assert len(pieces) > 3
        np.testing.assert_array_equal(np.concatenate(pieces), expected[identity], err_msg=texts[identity])
