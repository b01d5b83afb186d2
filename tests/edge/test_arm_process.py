"""An edge process and a voice under a rollout: keys from both doors, the table that changes, what it says of itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.e2e.calls import inputs_for
from voxrepo.edge.routing import assigned_arm
from voxrepo.edge.table import EdgeTable, write_table
from voxrepo.rollout.plan import RequestSeen
from voxrepo.rollout.route import Route

from .harness import EdgeProcess, Engine, voice, wait_until

VOICE, ARM = "en-test", "candidate"
ARM_ROW = f"{VOICE}.{ARM}"
HEADER = "X-User"


def table(weight: float, generation: int = 1) -> EdgeTable:
    # another voice's ensemble stands in for the arm's
    row = voice(ARM_ROW, voice=VOICE, arm=ARM, engine_model="en-narrow", versions=dict.fromkeys(VERSIONS, 9))
    route = Route(rollout="r", policy="canary", weights={ARM: weight}, labels={"canary": ARM})
    return EdgeTable(generation=generation, voices={VOICE: voice(VOICE), ARM_ROW: row}, routes={VOICE: route})


VERSIONS = ("text_frontend", "acoustic", "vocoder")
KEYS = [f"user {number}" for number in range(20)]


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProcess]:
    folder = tmp_path_factory.mktemp("edge")
    options = ("--routing-key-header", HEADER, "--rollout-folder", str(folder / "replica"))
    running = EdgeProcess(engine.target, folder, *options, table=table(50))
    yield running
    assert running.stop() == 0, running.log()
    assert "Traceback" not in running.log(), running.log()


def facts(place: EdgeProcess) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((place.table_file.parent / "ready.json").read_text(encoding="utf-8"))
    return content


def change(place: EdgeProcess, weight: float) -> None:
    generation = facts(place)["generation"] + 1
    begun_s = time.monotonic()
    write_table(place.table_file, table(weight, generation))
    wait_until(lambda: facts(place)["generation"] == generation, "the new table")
    assert time.monotonic() - begun_s < 1


async def http_arms(place: EdgeProcess, path: str, body: dict[str, object]) -> list[str]:
    arms = []
    async with aiohttp.ClientSession() as session:
        for key in KEYS:
            url = f"http://{place.http}/v2/models/{path}"
            async with session.post(url, json=body, headers={HEADER.lower(): key}) as answer:
                text = await answer.text()
                assert answer.status == 200, text
                arms.append(json.loads(text.removeprefix("data: "))["arm"])
    return arms


async def test_the_header_decides_at_every_door(place: EdgeProcess) -> None:
    change(place, 50)
    expected = [assigned_arm("r", {ARM: 50.0}, key) for key in KEYS]
    assert {*expected} == {"stable", ARM}
    assert await http_arms(place, f"{VOICE}/generate", {"text": "hi"}) == expected
    tensors = [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": ["hi"]}]
    async with aiohttp.ClientSession() as session:
        for key, arm in zip(KEYS, expected, strict=True):
            url = f"http://{place.http}/v2/models/{VOICE}/infer"
            async with session.post(url, json={"inputs": tensors}, headers={HEADER: key}) as answer:
                document = await answer.json()
                assert (document["parameters"]["arm"], document["model_name"]) == (arm, VOICE)
    with triton.InferenceServerClient(place.grpc) as client:
        for key, arm in zip(KEYS, expected, strict=True):
            result = client.infer(VOICE, inputs_for(triton, "hi", seed=1), headers={HEADER.lower(): key})
            assert result.get_response().parameters["arm"].string_param == arm
        answers: list[Any] = []
        for key in KEYS[:8]:
            client.start_stream(lambda result, error: answers.append(error or result), headers={HEADER.lower(): key})
            client.async_stream_infer(VOICE, inputs_for(triton, "hi", seed=1))
            client.stop_stream()
        streamed = [answer.get_response().parameters["arm"].string_param for answer in answers]
        assert streamed == expected[:8]


async def test_a_new_table_is_in_force_within_a_second_and_only_moves_users_towards_the_arm(
    place: EdgeProcess,
) -> None:
    last = ["stable"] * len(KEYS)
    for weight in (0, 30, 70, 100):
        change(place, weight)
        arms = await http_arms(place, f"{VOICE}/generate", {"text": "hi"})
        assert all(now == ARM for now, before in zip(arms, last, strict=True) if before == ARM)
        last = arms
    assert set(last) == {ARM}
    assert place.metric("voxrepo_rollout_weight", voice=VOICE, arm=ARM) == 100
    assert place.metric("voxrepo_arm_ready", voice=VOICE, arm=ARM) == 1


async def test_an_arm_is_described_under_its_own_name(place: EdgeProcess) -> None:
    with triton.InferenceServerClient(place.grpc) as client:
        assert client.is_model_ready(ARM_ROW)
        assert client.get_model_metadata(ARM_ROW).name == ARM_ROW
        config = client.get_model_config(ARM_ROW).config
        assert (config.name, json.loads(config.parameters["voxrepo.versions"].string_value)["vocoder"]) == (ARM_ROW, 9)
        result = client.infer(ARM_ROW, inputs_for(triton, "hi", seed=1)).get_response()
        assert (result.model_name, result.parameters["arm"].string_param) == (ARM_ROW, ARM)


def test_the_ready_file_says_what_is_in_use_until_it_ends(place: EdgeProcess) -> None:
    change(place, 100)
    key = "en-narrow|text_frontend=9,acoustic=9,vocoder=9"
    with triton.InferenceServerClient(place.grpc) as client:
        call = client.async_infer(VOICE, inputs_for(triton, "sleep 1500", seed=1), callback=lambda result, error: None)
        wait_until(lambda: facts(place)["in_use"] == {key: 1}, "the count", timeout_s=1.2)
        write_table(place.table_file, EdgeTable(generation=90, voices={VOICE: voice(VOICE)}))
        wait_until(lambda: facts(place)["generation"] == 90, "the new table", timeout_s=1.0)
        assert facts(place)["in_use"] == {key: 1}
        wait_until(lambda: not facts(place)["in_use"], "the end of use", timeout_s=5)
        del call


def test_observations_arrive_within_a_moment(place: EdgeProcess) -> None:
    change(place, 100)
    folder = place.table_file.parent / "replica" / "observations"

    def lines() -> list[RequestSeen]:
        files = sorted(folder.glob("*.jsonl")) if folder.exists() else []
        return [RequestSeen.model_validate_json(line) for f in files for line in f.read_text().splitlines()]

    with triton.InferenceServerClient(place.grpc) as client:
        client.infer(VOICE, inputs_for(triton, "samples 22050", seed=1))
    # a line of the test before may still come
    wait_until(lambda: any(line.audio_s == 1.0 for line in lines()), "the line", timeout_s=2)
    line = next(line for line in lines() if line.audio_s == 1.0)
    assert (line.rollout, line.voice, line.arm, line.outcome) == ("r", VOICE, ARM, "ok")
    assert line.level_dbfs is not None and np.isfinite(line.level_dbfs)


@pytest.mark.parametrize("name", ["", "x key", "x-key-bin", "grpc-key", "x:key"])
def test_a_header_that_cannot_be_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from voxrepo.edge.options import parse_options

    with pytest.raises(SystemExit):
        parse_options(["--engine", "x", "--table", "t", f"--routing-key-header={name}"])
    assert "name of a header" in capsys.readouterr().err
