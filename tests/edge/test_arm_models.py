"""Models of the engine that belong to arms, and what clients may know of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.app import Edge
from voxrepo.edge.arm_models import is_dear, is_unlisted, serves_arms_only
from voxrepo.edge.costs import MIN_CALLS
from voxrepo.edge.options import EdgeOptions
from voxrepo.edge.table import EdgeTable, Problem, write_table
from voxrepo.edge.views import correct_index, hide_unlisted
from voxrepo_contract.errors import NotFound, PermissionDenied, Unavailable

from .arms import ARM, ArmRig, arm_entry, arm_rig
from .fake_stages import VOICE
from .harness import voice

ARM_MODEL, BRIDGE = f"{VOICE}.{ARM}", f"{VOICE}.stable"


def table(**changes: Any) -> EdgeTable:
    """A voice with an arm, and a model of somebody's own that is named like one."""
    rows = {VOICE: voice(VOICE), ARM_MODEL: arm_entry(), f"{VOICE}.uk": voice(f"{VOICE}.uk")}
    calls = {VOICE: 4, f"{VOICE}.vocoder": 2, ARM_MODEL: 4, f"{VOICE}.own": 2}
    return EdgeTable(generation=1, **{"voices": rows, "engine_calls": calls, **changes})


MOVING = {
    "voices": {VOICE: voice(VOICE, engine_model=BRIDGE), ARM_MODEL: arm_entry()},
    "engine_calls": {VOICE: 4, BRIDGE: 4, ARM_MODEL: 4},
}
"""While the bridge serves the voice."""


@pytest.mark.parametrize(
    ("name", "changes", "hidden"),
    [
        (BRIDGE, {}, True),
        (f"{BRIDGE}.stream", {}, True),
        (BRIDGE, MOVING, True),
        (f"{VOICE}.left", {}, True),
        (f"{VOICE}.left.stream", {}, True),
        (f"{VOICE}.left", {"voices": {}, "held": [VOICE]}, True),
        (f"{VOICE}.left", {"voices": {}, "unserved_voices": [VOICE]}, True),
        (f"{VOICE}.uk", {"voices": {VOICE: voice(VOICE)}, "unserved_voices": [f"{VOICE}.uk"]}, False),
        (VOICE, {}, False),
        (f"{VOICE}.stream", {}, False),
        (ARM_MODEL, {}, False),
        (f"{ARM_MODEL}.stream", {}, False),
        (f"{VOICE}.vocoder", {}, False),
        (f"{VOICE}.own", {}, False),
        ("other.model", {}, False),
        ("", {}, False),
    ],
)
def test_names_of_arms_that_the_table_does_not_offer(name: str, changes: dict[str, Any], hidden: bool) -> None:
    assert is_unlisted(table(**changes), name) == hidden


@pytest.mark.parametrize(
    ("model", "version", "changes", "of_arm"),
    [
        (ARM_MODEL, "", {}, True),
        (BRIDGE, "", {}, True),
        (BRIDGE, "", MOVING, False),
        (ARM_MODEL, "", {"voices": {VOICE: voice(VOICE, engine_model=ARM_MODEL), ARM_MODEL: arm_entry()}}, False),
        (f"{VOICE}.vocoder", "5", {}, True),
        (f"{VOICE}.vocoder", "2", {}, False),
        (f"{VOICE}.vocoder", "", {}, False),
        (VOICE, "", {}, False),
        (f"{VOICE}.uk", "", {}, False),
        (f"{VOICE}.vocoder", "5", {"voices": {}}, False),
        ("other", "", {}, False),
    ],
)
def test_which_models_and_versions_serve_arms_only(
    model: str, version: str, changes: dict[str, Any], of_arm: bool
) -> None:
    assert serves_arms_only(table(**changes), model, version) == of_arm


async def test_an_arm_that_is_in_the_engine_but_not_offered_is_unknown_whatever_is_asked(tmp_path: Path) -> None:
    async with arm_rig(tmp_path) as place:
        place.change(voices={VOICE: place.stages.entry})
        plane = place.plane
        asks: list[Callable[[str], Awaitable[object]]] = [
            lambda name: place.ask(model=name),
            lambda name: place.ask("a" * 10_000, model=name),
            lambda name: place.listen(model=f"{name}.stream"),
            lambda name: place.ask(model=f"{name}.stream"),
            lambda name: plane.metadata(name, ""),
            lambda name: plane.config(name, ""),
            lambda name: plane.statistics(name, ""),
            plane.trace_settings,
            lambda name: plane.metadata(f"{name}.stream", ""),
        ]
        for name in (f"{VOICE}.loading", BRIDGE):
            for ask in asks:
                with pytest.raises(NotFound, match=rf"unknown model '{name}.*; voices: {VOICE}$"):
                    await ask(name)
            assert not await plane.model_ready(name, "")
            assert not await plane.model_ready(f"{name}.stream", "")
        assert place.stages.calls == []


async def test_the_bridge_that_serves_a_voice_is_called_through_the_voice_only(tmp_path: Path) -> None:
    async with arm_rig(tmp_path) as place:
        moving = place.stages.entry.model_copy(update={"engine_model": BRIDGE})
        calls = {**place.tables.table.engine_calls, BRIDGE: 4}
        place.change(voices={**place.tables.table.voices, VOICE: moving}, engine_calls=calls)
        await place.ask()
        with pytest.raises(NotFound):
            await place.ask(model=BRIDGE)
        assert place.stages.names() == [BRIDGE]


async def _answer(place: ArmRig, model: str) -> type[Exception] | None:
    try:
        await place.ask(model=model)
    except (NotFound, PermissionDenied, Unavailable) as error:
        return type(error)
    return None


async def test_stages_of_a_voice_that_is_not_served_cannot_be_called_either(tmp_path: Path) -> None:
    async with arm_rig(tmp_path) as place:
        place.change(voices={}, problems=[Problem(model=VOICE, reason="damaged")], unserved_voices=[VOICE])
        assert await _answer(place, VOICE) is Unavailable
        assert await _answer(place, f"{VOICE}.vocoder") is PermissionDenied
        assert await _answer(place, ARM_MODEL) is None, "no row, but its own number of calls: somebody's own model"
        place.change(engine_calls={})
        assert await _answer(place, ARM_MODEL) is NotFound


async def test_a_model_with_a_problem_says_so_though_it_is_named_like_an_arm(tmp_path: Path) -> None:
    async with arm_rig(tmp_path) as place:
        place.change(problems=[Problem(model=f"{VOICE}.own", reason="damaged")])
        assert await _answer(place, f"{VOICE}.own") is Unavailable


@pytest.mark.parametrize("ready_only", [False, True])
def test_the_index_and_the_statistics_of_all_leave_out_what_cannot_be_called(ready_only: bool) -> None:
    names = [VOICE, f"{VOICE}.vocoder", ARM_MODEL, BRIDGE, f"{VOICE}.left", f"{VOICE}.own"]
    index = pb.RepositoryIndexResponse()
    statistics = pb.ModelStatisticsResponse()
    for name in names:
        index.models.add(name=name, state="READY")
        statistics.model_stats.add(name=name)
    correct_index(index, table(), ready_only=ready_only)
    listed = [model.name for model in index.models if not model.name.endswith(".stream")]
    assert listed == [VOICE, f"{VOICE}.vocoder", ARM_MODEL, f"{VOICE}.own"]
    hide_unlisted(statistics.model_stats, table())
    assert [model.name for model in statistics.model_stats] == listed


async def test_gates_of_dear_arms_leave_a_place_until_these_become_stable(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    write_table(file, table(engine_pools={VOICE: 3}))
    options = EdgeOptions(engine=f"unix:{tmp_path}/absent.sock", table=file, http_port=0, grpc_port=0, metrics_port=0)
    edge = Edge(options)
    gates = edge._engine.gates

    def leaving() -> list[bool]:
        models = [(VOICE, ""), (ARM_MODEL, ""), (f"{VOICE}.vocoder", "2"), (f"{VOICE}.vocoder", "5")]
        return [gates.of(*model).leaves_one for model in models]

    await edge.start()
    try:
        assert leaving() == [False] * 4
        for line, seconds in {VOICE: 0.1, ARM_MODEL: 0.3}.items():
            for _ in range(MIN_CALLS):
                edge._engine.costs.observe(line, 64, seconds, seconds)
        assert leaving() == [False, True, False, False]
        for version, seconds in ((2, 0.1), (5, 0.3)):
            for _ in range(MIN_CALLS):
                edge._engine.costs.observe(f"{VOICE}.vocoder version {version}", 64, seconds, seconds)
        assert leaving() == [False, True, False, True]
        assert len({id(gates.of(name).pool) for name in (VOICE, ARM_MODEL)}) == 1
        promoted = voice(VOICE, versions=arm_entry().versions)
        write_table(file, table(voices={VOICE: promoted}, engine_pools={VOICE: 3}))
        assert edge._tables.refresh()
        assert leaving()[3] is False
    finally:
        await edge.stop()


@pytest.mark.parametrize(
    ("model", "version", "stable"),
    [(ARM_MODEL, "", VOICE), (f"{VOICE}.vocoder", "5", f"{VOICE}.vocoder version 2"), (f"{VOICE}.gone", "", VOICE)],
)
@pytest.mark.parametrize(
    ("cost", "stable_cost", "dear"),
    [
        ((0.0, 0.01), (0.0, 0.01), False),
        ((0.0, 0.014), (0.0, 0.01), False),
        ((0.0, 0.016), (0.0, 0.01), True),
        ((1.0, 0.01), (0.0, 0.01), True),
        ((5.0, 0.01), (0.0, 0.0), False),
        ((0.0, 0.0), (0.0, 0.01), False),
    ],
)
def test_an_arm_is_dear_once_it_is_known_to_cost_half_as_much_again(
    model: str, version: str, stable: str, cost: tuple[float, float], stable_cost: tuple[float, float], dear: bool
) -> None:
    costs = {stable: stable_cost}
    assert is_dear(table(), model, version, lambda line: costs.get(line, cost)) is dear
