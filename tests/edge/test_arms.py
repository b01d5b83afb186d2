"""Requests of a voice under a rollout, before an engine whose arms can be told apart by the samples."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from voxrepo.edge.holding import NOTICE_S
from voxrepo.edge.in_use import usage_key
from voxrepo.rollout.route import Overflow
from voxrepo_contract.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable

from .arms import (
    ARM,
    ARM_VERSIONS,
    ArmRig,
    arm_entry,
    arm_of,
    arm_rig,
    canary,
    key_of,
    signed,
)
from .fake_stages import VOICE, audio_of, whole_audio

TEXT = "a first sentence that needs some windows of the vocoder. and another. the last of them is not the shortest one"
STABLE_VERSIONS = {"text_frontend": 1, "acoustic": 3, "vocoder": 2}
VERSIONS = {"stable": STABLE_VERSIONS, ARM: ARM_VERSIONS}
ENSEMBLES = {"stable": VOICE, ARM: f"{VOICE}.{ARM}"}


async def check_unary(place: ArmRig, served_by: str, text: str = "hello", **asked: str) -> None:
    """One call is served by an arm wholly, and the answer says so."""
    place.stages.calls.clear()
    response = await place.ask(text, **asked)
    assert arm_of(response) == (served_by, VERSIONS[served_by])
    assert response.model_name == asked.get("model", VOICE)
    np.testing.assert_array_equal(audio_of(response), signed(whole_audio(text, 5, place.stages.entry), served_by))
    assert place.stages.names() == [ENSEMBLES[served_by]]


async def check_stream(place: ArmRig, served_by: str, **asked: Any) -> None:
    """So is each piece of a stream."""
    place.stages.calls.clear()
    pieces = await place.listen(TEXT, **asked)
    assert len(pieces) > 2
    assert all(arm_of(piece) == (served_by, VERSIONS[served_by]) for piece in pieces)
    assert {piece.model_name for piece in pieces} == {asked.get("model", f"{VOICE}.stream")}
    audio = np.concatenate([audio_of(piece) for piece in pieces])
    np.testing.assert_array_equal(audio, signed(whole_audio(TEXT, 5, place.stages.entry), served_by))
    versions = {f"{VOICE}.{stage}:{version}" for stage, version in VERSIONS[served_by].items()}
    assert set(place.stages.names()) == versions


@pytest.mark.parametrize("arm", ["stable", ARM])
async def test_a_key_decides_by_weight_and_the_whole_request_stays_on_its_arm(tmp_path: Path, arm: str) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        await check_unary(place, arm, routing_key=key_of(arm))
        await check_unary(place, arm, key=key_of(arm))
        await check_stream(place, arm, routing_key=key_of(arm))


async def test_the_parameter_goes_before_the_header(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        await check_unary(place, ARM, key=key_of("stable"), routing_key=key_of(ARM))


async def test_requests_without_a_key_are_divided_by_their_ids(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        arms = [arm_of(await place.ask("a"))[0] for _ in range(60)]
    assert 10 < arms.count(ARM) < 50


@pytest.mark.parametrize(("name", "arm"), [("stable", "stable"), (ARM, ARM), ("canary", ARM)])
async def test_the_parameter_arm_pins_by_name_or_label_against_the_weights(tmp_path: Path, name: str, arm: str) -> None:
    async with arm_rig(tmp_path, canary(0 if arm == ARM else 100)) as place:
        await check_unary(place, arm, arm=name)
        await check_stream(place, arm, arm=name)


async def test_an_arm_is_called_by_its_name_with_and_without_a_rollout(tmp_path: Path) -> None:
    for route in (canary(0), None):
        async with arm_rig(tmp_path, route) as place:
            await check_unary(place, ARM, model=f"{VOICE}.{ARM}")
            await check_stream(place, ARM, model=f"{VOICE}.{ARM}.stream")
            await check_unary(place, ARM, model=f"{VOICE}.{ARM}", arm=ARM)
            with pytest.raises(InvalidArgument, match="is the arm 'candidate' itself"):
                await place.ask(model=f"{VOICE}.{ARM}", arm="stable")


async def test_an_arm_that_is_not_loaded_is_not_found_and_the_others_are_named(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(10, labels={"canary": ARM, "previous": "previous"})) as place:
        for name in ("previous", "other"):
            with pytest.raises(NotFound, match=rf"no arm '{name}' that is loaded; its arms: stable, candidate"):
                await place.ask(arm=name)
        with pytest.raises(InvalidArgument, match="'arm' is ''"):
            await place.ask(arm="")
    async with arm_rig(tmp_path) as place:
        place.change(voices={VOICE: place.stages.entry})
        with pytest.raises(NotFound, match=r"its arms: stable$"):
            await place.ask(arm=ARM)


async def test_a_key_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        with pytest.raises(InvalidArgument, match="header with the routing key"):
            await place.ask(key="k" * 257)
        with pytest.raises(InvalidArgument, match="'routing_key'"):
            await place.ask(routing_key="k" * 257)


async def test_a_row_may_be_served_by_another_ensemble_for_a_moment(tmp_path: Path) -> None:
    async with arm_rig(tmp_path) as place:
        moved = place.stages.entry.model_copy(update={"versions": ARM_VERSIONS, "engine_model": f"{VOICE}.{ARM}"})
        place.change(voices={**place.tables.table.voices, VOICE: moved})
        response = await place.ask()
        assert arm_of(response) == ("stable", ARM_VERSIONS)
        assert response.model_name == VOICE
        assert place.stages.names() == [f"{VOICE}.{ARM}"]


async def test_a_long_text_is_made_by_the_versions_of_one_arm(tmp_path: Path) -> None:
    text = "a sentence of a long text. " * 15
    async with arm_rig(tmp_path, canary(50), entry=arm_entry(max_text_chars=1000)) as place:
        response = await place.ask(text, arm=ARM)
        assert arm_of(response) == (ARM, ARM_VERSIONS)
        assert {name for name in place.stages.names() if "vocoder" in name} == {f"{VOICE}.vocoder:5"}
    np.testing.assert_array_equal(audio_of(response), signed(whole_audio(text, 5, place.stages.entry), ARM))


async def test_a_weight_that_changes_during_a_stream_does_not_move_it(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        pieces = await place.listen(TEXT, after_first=lambda: place.change(routes={VOICE: canary(0)}))
        assert {arm_of(piece)[0] for piece in pieces} == {ARM}
        assert arm_of(await place.ask())[0] == "stable"


# ---- arms that are taken away


@pytest.mark.parametrize("asks", ["unary", "stream"])
async def test_a_request_whose_arm_is_taken_away_while_it_waits_is_assigned_anew(tmp_path: Path, asks: str) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, f"{VOICE}.{ARM}": 1, f"{VOICE}.text_frontend": 1})
        place.stages.delays_s = {f"{VOICE}.{ARM}": 0.3, f"{VOICE}.text_frontend:1": 0.3}
        ask = place.ask if asks == "unary" else place.listen
        first, second = asyncio.create_task(ask()), asyncio.create_task(ask())
        await asyncio.sleep(0.1)
        place.drop_arm()
        if asks == "unary":
            place.stages.missing.clear()
            place.stages.fault = lambda name, _: (
                (grpc.StatusCode.NOT_FOUND, "no available versions")
                if name == f"{VOICE}.{ARM}" and place.stages.names().count(name) > 1
                else None
            )
        answers = await asyncio.gather(first, second)
        last = answers[1] if asks == "unary" else answers[1][0]
        assert arm_of(last) == ("stable", STABLE_VERSIONS)
        assert place.plane.in_use.counts == {}


async def test_a_pinned_request_whose_arm_is_taken_away_is_told_the_arms_there_are(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        for asked in ({"arm": ARM}, {"model": f"{VOICE}.{ARM}"}):
            place.change(voices={VOICE: place.stages.entry, f"{VOICE}.{ARM}": arm_entry()}, routes={VOICE: canary(100)})
            place.stages.missing.clear()
            place.stages.delays_s = {f"{VOICE}.{ARM}": 0.2}
            task = asyncio.create_task(place.ask(**asked))
            await asyncio.sleep(0.1)
            place.drop_arm()
            with pytest.raises(NotFound, match=r"no arm 'candidate' that is loaded; its arms: stable"):
                await task


async def test_a_dead_process_of_an_arm_costs_its_requests_no_longer_than_the_table_takes(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        place.stages.fault = lambda name, _: (
            (grpc.StatusCode.INTERNAL, "Stub process 'x' is not healthy.") if name == f"{VOICE}.{ARM}" else None
        )
        begun_s = time.monotonic()
        task = asyncio.create_task(place.ask())
        await asyncio.sleep(0.3)
        place.drop_arm()
        assert arm_of(await task) == ("stable", STABLE_VERSIONS)
        assert time.monotonic() - begun_s < NOTICE_S - 1


async def test_a_stream_that_has_given_audio_is_not_begun_again_by_another_arm(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        with pytest.raises(Unavailable):
            await place.listen(TEXT, after_first=place.drop_arm)
        assert f"{VOICE}.vocoder:2" not in place.stages.names()


# ---- what is in use


async def test_what_requests_use_is_counted_from_the_line_to_the_end(tmp_path: Path) -> None:
    stable, candidate = usage_key(arm_entry("stable", voice="", versions=STABLE_VERSIONS)), usage_key(arm_entry())
    assert candidate == f"{VOICE}.{ARM}|text_frontend=1,acoustic=3,vocoder=5"
    async with arm_rig(tmp_path, canary(100)) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, f"{VOICE}.{ARM}": 1})
        place.stages.delays_s = {f"{VOICE}.{ARM}": 0.2}
        tasks = [asyncio.create_task(place.ask()) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert place.plane.in_use.counts == {candidate: 3}
        seen: list[dict[str, int]] = []
        await place.listen(TEXT, arm=ARM, after_first=lambda: seen.append(place.plane.in_use.counts))
        assert seen[0][candidate] >= 1
        await asyncio.gather(*tasks)
        assert place.plane.in_use.counts == {}
        assert stable.startswith(f"{VOICE}.stable|")


async def test_requests_held_for_a_recovery_use_nothing_until_it_is_over(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        place.change(held=[VOICE])
        tasks = [asyncio.create_task(place.ask()), asyncio.create_task(place.ask(model=f"{VOICE}.{ARM}"))]
        await asyncio.sleep(0.15)
        assert not any(task.done() for task in tasks)
        assert place.plane.in_use.counts == {}
        assert place.stages.calls == []
        place.change(held=[])
        assert [arm_of(await task)[0] for task in tasks] == [ARM, ARM]


@pytest.mark.parametrize("asks", ["pinned", "by name", "stream"])
async def test_an_arm_that_is_recovered_later_than_its_voice_is_waited_for_by_its_own_requests(
    tmp_path: Path, asks: str
) -> None:
    """As after the engine was started afresh: the voice is back, its arms are still being loaded."""
    async with arm_rig(tmp_path, canary(50)) as place:
        waiting: list[asyncio.Task[Any]] = []
        lost = asyncio.Event()

        def lose_engine() -> None:
            lost.set()
            place.change(held=[VOICE, f"{VOICE}.{ARM}"], routes={})
            place.stages.missing |= {f"{VOICE}.{ARM}", f"{VOICE}.vocoder:5"}

        if asks == "stream":
            waiting.append(asyncio.create_task(place.listen(TEXT, arm=ARM, after_first=lose_engine)))
            await lost.wait()
        else:
            lose_engine()
            asked = {"arm": ARM} if asks == "pinned" else {"model": f"{VOICE}.{ARM}"}
            waiting.append(asyncio.create_task(place.ask(**asked)))
        await asyncio.sleep(0.15)
        place.change(held=[f"{VOICE}.{ARM}"])
        assert arm_of(await asyncio.wait_for(place.ask(key=key_of(ARM)), 5))[0] == "stable"
        assert not waiting[0].done()
        place.stages.missing.clear()
        place.change(held=[], routes={VOICE: canary(50)})
        answer = await asyncio.wait_for(waiting[0], 5)
        responses = answer if asks == "stream" else [answer]
        assert {arm_of(response)[0] for response in responses} == {ARM}
        whole = TEXT if asks == "stream" else "hello"
        audio = np.concatenate([audio_of(response) for response in responses])
        np.testing.assert_array_equal(audio, signed(whole_audio(whole, 5, place.stages.entry), ARM))


async def test_while_a_voice_drains_what_has_begun_goes_on_and_what_comes_waits(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(100)) as place:
        later: list[asyncio.Task[Any]] = []

        def drain() -> None:
            place.change(draining=[VOICE])
            later.append(asyncio.create_task(place.ask()))

        assert len(await asyncio.wait_for(place.listen(TEXT, arm=ARM, after_first=drain), 5)) > 1
        await asyncio.sleep(0.15)
        assert not later[0].done()
        assert place.plane.in_use.counts == {}
        place.change(draining=[])
        assert arm_of(await later[0])[0] == ARM


async def test_a_request_that_waits_in_line_over_an_exchange_in_place_is_told_who_answered_it(tmp_path: Path) -> None:
    """The stages are gone, then others are there, and only then the table says so and lets requests go on."""
    async with arm_rig(tmp_path, None) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, VOICE: 1})
        place.stages.delays_s = {VOICE: 0.3}
        first, second = asyncio.create_task(place.ask()), asyncio.create_task(place.ask())
        await asyncio.sleep(0.1)
        place.change(held=[VOICE])
        assert arm_of(await first) == ("stable", STABLE_VERSIONS)
        place.stages.flipped.add(VOICE)
        await asyncio.sleep(0.3)
        assert place.stages.names() == [VOICE], "a call whose turn comes while nothing may go on is not made"
        new = place.stages.entry.model_copy(update={"versions": ARM_VERSIONS})
        place.change(voices={VOICE: new})
        place.change(held=[])
        response = await asyncio.wait_for(second, 5)
        assert arm_of(response) == ("stable", ARM_VERSIONS)
        np.testing.assert_array_equal(audio_of(response), signed(whole_audio("hello", 5, place.stages.entry), ARM))
        assert place.stages.names() == [VOICE, VOICE]
        assert place.plane.in_use.counts == {}


async def test_a_request_in_line_is_not_moved_when_another_ensemble_comes_to_serve_its_voice(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, None) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, VOICE: 1})
        place.stages.delays_s = {VOICE: 0.2}
        tasks = [asyncio.create_task(place.ask()) for _ in range(2)]
        await asyncio.sleep(0.1)
        moving = place.stages.entry.model_copy(update={"engine_model": f"{VOICE}.{ARM}", "versions": ARM_VERSIONS})
        place.change(voices={VOICE: moving})
        assert [arm_of(await task) for task in tasks] == [("stable", STABLE_VERSIONS)] * 2
        assert place.stages.names() == [VOICE, VOICE]


async def test_a_recovery_costs_those_in_line_no_failed_call(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, None) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, VOICE: 1, f"{VOICE}.vocoder": 1})
        place.stages.delays_s = {VOICE: 0.2}
        tasks = [asyncio.create_task(place.ask()) for _ in range(3)]
        await asyncio.sleep(0.1)
        place.change(held=[VOICE])
        place.stages.fault = lambda name, _: (grpc.StatusCode.INTERNAL, "Stub process 'x' is not healthy.")
        await asyncio.sleep(0.2)
        place.stages.fault = lambda name, _: None
        place.change(held=[])
        for task in tasks:
            assert arm_of(await asyncio.wait_for(task, 5)) == ("stable", STABLE_VERSIONS)
        # the one that met the fault is made again, the others were not sent
        assert len(place.stages.calls) == 4


async def test_what_no_client_may_call_does_not_wait_for_a_voice_that_is_held(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        place.change(held=[VOICE])
        made_up = {f"{VOICE}.nonsense", f"{VOICE}.nonsense.stream"}
        place.stages.missing |= made_up
        for name in (*made_up, f"{VOICE}.vocoder"):
            with pytest.raises((NotFound, PermissionDenied)):
                await asyncio.wait_for(place.ask(model=name), 1)


# ---- policies


async def test_overflow_sends_new_requests_to_the_cheaper_arm_while_the_line_is_long(tmp_path: Path) -> None:
    overflow = Overflow(arm=ARM, above_wait_s=0.3, below_wait_s=0.1)
    async with arm_rig(tmp_path, canary(0, policy="overflow", weights={}, overflow=overflow)) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, VOICE: 1})
        place.stages.delays_s = {VOICE: 0.05}
        for _ in range(9):  # costs are known after some calls
            assert arm_of(await place.ask())[0] == "stable"
        tasks = [asyncio.create_task(place.ask()) for _ in range(14)]
        await asyncio.sleep(0.02)
        assert arm_of(await place.ask())[0] == ARM
        arms = [arm_of(await task)[0] for task in tasks]
        assert {"stable", ARM} == set(arms)
        assert arm_of(await place.ask())[0] == "stable"


@pytest.mark.parametrize("first_window", [12, 16])
async def test_tiered_makes_the_first_piece_by_the_arm_and_the_rest_by_the_stable_vocoder(
    tmp_path: Path, first_window: int
) -> None:
    route = canary(0, policy="tiered", weights={}, tiered_arm=ARM)
    async with arm_rig(tmp_path, route, entry=arm_entry(first_window_frames=first_window)) as place:
        place.stages.entry = place.stages.entry.model_copy(update={"first_window_frames": first_window})
        place.stages.calls.clear()
        pieces = await place.listen(TEXT)
        arms = [arm_of(piece) for piece in pieces]
        assert arms[0] == (ARM, ARM_VERSIONS)
        assert arms[-1] == ("stable", STABLE_VERSIONS)
        whole = whole_audio(TEXT, 5, place.stages.entry)
        at = 0
        for piece, (arm, _) in zip(pieces, arms, strict=True):
            samples = audio_of(piece)
            np.testing.assert_array_equal(samples, signed(whole[at : at + len(samples)], arm))
            at += len(samples)
        assert at == len(whole)
        by_arm = sum(arm == ARM for arm, _ in arms)
        # where windows differ, a vocoder cannot go on with what the other one began
        assert by_arm == 1 if first_window == 12 else by_arm > 1
        await check_unary(place, "stable")


async def test_counts_are_by_arm(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50)) as place:
        await place.ask(routing_key=key_of(ARM))
        await place.ask(routing_key=key_of("stable"))
        for arm in ("stable", ARM):
            labels = {"model": VOICE, "arm": arm}
            count = place.metrics.registry.get_sample_value("voxrepo_request_duration_seconds_count", labels)
            assert count == 1
