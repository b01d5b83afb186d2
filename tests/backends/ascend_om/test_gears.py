from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.cost_store import CostStore, cost_setting
from om_backend.gear_costs import measure_gears
from om_backend.gears import Gear, GearTable, describe, gears_of
from om_backend.packing import Shape
from om_backend.runtime import RuntimeSettings

from voxrepo_contract.errors import ConfigError, Internal
from voxrepo_contract.stage import GraphSpec, GraphTensor

SHA256 = "0" * 64


def spec(dims: list[int | str], gears: list[dict[str, int]]) -> GraphSpec:
    return GraphSpec(
        file="graph.om",
        sha256=SHA256,
        device="npu",
        inputs=[GraphTensor(name="features", dtype="FP32", dims=dims)],
        outputs=[GraphTensor(name="audio", dtype="FP32", dims=["batch", 1, "samples"])],
        gears=gears,
    )


def test_gears_are_read_from_the_axes_of_an_input():
    gears = [{"batch": 4, "frames": 64, "samples": 256}, {"batch": 1, "frames": 64, "samples": 256}]
    assert gears_of(spec(["batch", 3, "frames"], gears), "features", 2) == (Gear(1, 64), Gear(4, 64))


def test_a_fixed_axis_is_the_same_in_every_gear():
    assert gears_of(spec([1, 3, "frames"], [{"frames": 64}, {"frames": 32}]), "features", 2) == (
        Gear(1, 32),
        Gear(1, 64),
    )


def test_a_graph_of_fixed_sizes_has_one_gear():
    assert gears_of(spec([2, 3, 64], []), "features", 2) == (Gear(2, 64),)


def test_a_graph_that_takes_any_size_has_none():
    assert gears_of(spec(["batch", 3, "frames"], []), "features", 2) == ()


def test_a_gear_that_leaves_an_axis_open_is_refused():
    with pytest.raises(
        ConfigError, match=r"graph.om: the gear {'batch': 4} does not say the size of the axis 'frames'"
    ):
        gears_of(spec(["batch", 3, "frames"], [{"batch": 4}]), "features", 2)


@pytest.mark.parametrize(("tensor", "axis"), [("mel", 2), ("features", 3)])
def test_a_graph_without_the_input_is_refused(tensor: str, axis: int):
    with pytest.raises(ConfigError, match="the graph needs an input"):
        gears_of(spec(["batch", 3, "frames"], []), tensor, axis)


def test_a_call_runs_in_the_cheapest_gear_that_holds_it():
    table = GearTable({Gear(1, 32): 1.0, Gear(1, 64): 3.0, Gear(4, 64): 2.5, Gear(8, 32): 2.0})
    assert table.shape(1, 20) == Shape(1, 32)
    assert table.shape(2, 20) == Shape(8, 32)
    # measured noise: the larger gear was faster, and holds it
    assert table.shape(1, 33) == Shape(4, 64)
    assert table.shape(5, 33) is None
    assert table.shape(1, 65) is None
    assert table.longest == 64
    assert table.lengths == (32, 64)


@given(
    st.dictionaries(
        st.builds(Gear, st.integers(1, 8), st.integers(1, 9)), st.floats(0.01, 10), min_size=1, max_size=12
    ),
    *[st.integers(1, 9)] * 4,
)
def test_more_never_costs_less(seconds: dict[Gear, float], rows: int, length: int, more: int, longer: int):
    table = GearTable(seconds)
    small, large = table.shape(rows, length), table.shape(rows + more, length + longer)
    if large is not None:
        assert small is not None
        assert table.seconds(*small) <= table.seconds(*large)


def test_equal_costs_prefer_the_smaller_gear():
    table = GearTable({Gear(2, 32): 1.0, Gear(1, 64): 1.0, Gear(1, 32): 1.0})
    assert table.shape(1, 5) == Shape(1, 32)


def test_batches_that_do_not_pay_are_left_out_and_every_length_stays():
    seconds = {
        Gear(1, 32): 1.0,
        Gear(2, 32): 1.97,
        Gear(4, 32): 3.0,
        Gear(8, 32): 5.9,
        Gear(2, 64): 9.0,
        Gear(4, 64): 30.0,
    }
    assert GearTable.measured(seconds, 0.05).gears == (Gear(1, 32), Gear(2, 64), Gear(4, 32))


def test_estimated_costs_pay_for_a_call_and_for_its_size():
    table = GearTable.estimated([Gear(1, 32), Gear(4, 32), Gear(1, 64)])
    assert [table.seconds(*gear) for gear in ((1, 32), (1, 64), (4, 32))] == [64.0, 96.0, 160.0]


def test_the_time_of_a_unit_is_that_in_the_best_full_gear():
    table = GearTable({Gear(1, 32): 1.0, Gear(4, 32): 2.0, Gear(8, 64): 16.0})
    assert table.unit_seconds() == {32: 0.5, 64: 2.0}
    assert table.limited(2).unit_seconds() == {32: 1.0, 64: 8.0}


def test_a_limit_of_units_keeps_gears_with_more_rows():
    table = GearTable({Gear(4, 32): 1.0, Gear(8, 32): 1.5}).limited(2)
    assert table.rows == (2,)
    assert table.shape(2, 32) == Shape(4, 32)


@pytest.mark.parametrize(
    "seconds",
    [{}, {Gear(0, 3): 1.0}, {Gear(1, 0): 1.0}, {Gear(1, 3): 0.0}, {Gear(1, 3): float("nan")}],
)
def test_refuses_costs_that_cannot_be_used(seconds: dict[Gear, float]):
    with pytest.raises(ValueError, match=r"at least one gear|positive"):
        GearTable(seconds)


def test_gears_are_named_shortly():
    assert describe([Gear(1, 32), Gear(4, 64)]) == "1x32, 4x64 (rows x length)"


class Device:
    """Takes a while, the more the larger the gear, and remembers."""

    def __init__(self) -> None:
        self.runs: list[Gear] = []

    def call_with(self, gear: Gear) -> Callable[[], object]:
        def call() -> None:
            self.runs.append(gear)
            time.sleep(0.002 * gear.length * (1 + 0.1 * gear.batch))

        return call


GEARS = [Gear(1, 1), Gear(4, 1), Gear(1, 5)]


def test_every_gear_is_run_and_timed():
    device = Device()
    table = measure_gears(GEARS, device.call_with, store=CostStore(), graph_sha256=SHA256)
    assert set(device.runs) == set(GEARS)
    assert device.runs[0] == Gear(1, 5)
    assert table.gears == (Gear(1, 1), Gear(1, 5), Gear(4, 1))
    assert 0.002 < table.seconds(1, 1) < table.seconds(1, 5)
    assert len(device.runs) == 4 * len(GEARS)


def test_a_device_too_slow_for_rounds_is_taken_at_its_first_word(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("om_backend.gear_costs._BUDGET_S", 0.001)
    device = Device()
    table = measure_gears(GEARS, device.call_with, store=CostStore(), graph_sha256=SHA256)
    assert sorted(device.runs) == sorted(GEARS)
    assert table.seconds(1, 5) > 0.01


def test_a_later_start_recalls_the_times_and_still_runs_every_gear_once(tmp_path: Path):
    first, second = Device(), Device()
    store = CostStore(tmp_path, "npu")
    known = measure_gears(GEARS, first.call_with, store=store, graph_sha256=SHA256)
    again = measure_gears(GEARS, second.call_with, store=store, graph_sha256=SHA256)
    assert {gear: known.seconds(*gear) for gear in known.gears} == {gear: again.seconds(*gear) for gear in again.gears}
    assert sorted(second.runs) == sorted(GEARS)
    assert len(first.runs) > len(GEARS)


def test_times_kept_for_other_gears_are_not_believed(tmp_path: Path):
    store = CostStore(tmp_path, "npu")
    measure_gears(GEARS, Device().call_with, store=store, graph_sha256=SHA256)
    table = measure_gears(GEARS[:2], Device().call_with, store=store, graph_sha256=SHA256)
    assert table.seconds(1, 1) == 2.0


def test_without_a_place_to_share_them_costs_are_estimated(tmp_path: Path):
    (tmp_path / "file").touch()
    device = Device()
    table = measure_gears(GEARS, device.call_with, store=CostStore(tmp_path / "file"), graph_sha256=SHA256)
    assert table.seconds(4, 1) == 5.0
    assert sorted(device.runs) == sorted(GEARS)


def test_a_gear_that_does_not_run_is_found_at_warm_up():
    def call_with(gear: Gear) -> Callable[[], object]:
        def call() -> None:
            if gear == Gear(4, 1):
                raise Internal("no memory")

        return call

    with pytest.raises(Internal, match="no memory"):
        measure_gears(GEARS, call_with, store=CostStore(), graph_sha256=SHA256)


def test_kept_costs_are_told_apart_by_what_the_emulator_is_set_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "settings.json"
    monkeypatch.setenv("VOXREPO_EMULATOR_SETTINGS", str(file))
    emulator = RuntimeSettings(threads=2, mode="emulator")
    found = [cost_setting(emulator)]
    for profile in ("null", "ascend910b"):
        file.write_text(profile)
        found.append(cost_setting(emulator))
    assert len({*found, cost_setting(RuntimeSettings(threads=2, mode="npu"))}) == 4
    assert cost_setting(RuntimeSettings(threads=2)) == "2 threads"
