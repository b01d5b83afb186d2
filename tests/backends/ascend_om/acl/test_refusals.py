"""What a request or an operator gets wrong, told in a sentence, with the graph as sound as before."""

from __future__ import annotations

import pytest

from tests.backends.ascend_om.acl import models
from tests.backends.ascend_om.acl.emulated import run

MIB = 1 << 20


@pytest.mark.parametrize(
    ("kind", "sentences"),
    [
        (
            "static",
            ["built for [2, 8]", "input x is FP32 in this model and the array is FP16", "takes 1 inputs", "2 were"],
        ),
        ("batch_gears", ["x [1, 8]; x [2, 8]; x [4, 8]", "no gear for x [1, 9]", "no gear for x [8]"]),
        ("dims_gears", ["x [1, 2, 16] mask [1, 16]", "no gear for x [1, 2, 16] mask [1, 32]"]),
        ("range", ["axis 0 must be 1 to 8", "axis 1 must be 1 to 512", "takes 2 dims", "axis 0 must be 1 to 8"]),
        ("unbounded", ["axis 0 must be 1 or more", "input durations is INT64"]),
    ],
)
def test_a_wrong_request_is_refused_by_itself_and_the_next_one_is_served(tmp_path, kind, sentences):
    result = run(tmp_path, "refusals", kind).result
    assert result["right"]
    assert len(result["faults"]) == len(sentences)
    for fault, sentence in zip(result["faults"], sentences, strict=True):
        assert fault["action"] == "request"
        assert sentence in fault["advice"]
        assert fault["advice"].startswith("m.om: ")


@pytest.mark.parametrize(
    ("maker", "more", "settings", "says"),
    [
        ("static", {"soc": "Ascend310P3"}, {}, "built for Ascend310P3 and this device is Ascend910B3"),
        ("static", {}, {"vnpu": True}, "--virtual_type=1"),
        ("ranged", {"opp_version": "7.0"}, {}, "operator package"),
        ("image_gears", {}, {}, "image sizes"),
        ("brain_float", {}, {}, "input x has the type BF16"),
        ("with_aipp", {}, {}, "AIPP"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_the_others_run_on(tmp_path, maker, more, settings, says):
    if settings.get("vnpu"):
        # the other model must fit the slice
        result = run(tmp_path, "only_load", maker, more, **settings).result
    else:
        result = run(tmp_path, "open_and_load", maker, more, {}, **settings).result
        assert result["right"]
        assert result["lost"] == 0
    assert result["action"] == "refuse"
    assert says in result["advice"]


def test_a_model_larger_than_the_free_memory_is_refused_with_numbers_before_it_is_loaded(tmp_path):
    more = {"weights_bytes": 40 * MIB, "work_bytes": 30 * MIB}
    outcome = run(tmp_path, "open_and_load", "static", more, {}, device_memory_bytes=64 * MIB)
    result = outcome.result
    assert result["action"] == "refuse"
    for number in ("70.0 MiB", "40.0 MiB weights", "30.0 MiB work memory", "64.0 MiB are free"):
        assert number in result["advice"]
    assert result["right"]
    assert result["lost"] == 0
    assert outcome.end["calls"]["acl.mdl.load_from_file"] == 1, "only the other model was loaded"


def test_buffers_count_in_the_memory_budget(tmp_path):
    more = {"batches": [1, 1 << 20], "width": 16}
    result = run(tmp_path, "open_and_load", "batch_gears", more, {}, device_memory_bytes=100 * MIB).result
    assert result["action"] == "refuse"
    assert "buffers" in result["advice"]
    assert result["right"]


def test_memory_held_in_reserve_is_not_given_away(tmp_path):
    options = {"memory_reserve_bytes": str(62 * MIB)}
    result = run(tmp_path, "open_and_load", "static", {}, options, device_memory_bytes=64 * MIB).result
    assert result["action"] == "refuse"
    assert "held in reserve" in result["advice"]


@pytest.mark.parametrize("device_id", [1, -1, 99])
def test_a_device_that_is_not_there_is_refused_with_the_number_of_those_that_are(tmp_path, device_id):
    result = run(tmp_path, "only_open", device_id).result
    assert result["action"] == "refuse"
    assert "1 are visible" in result["advice"]


def test_a_machine_without_devices_is_told_so(tmp_path):
    result = run(tmp_path, "only_open", 0, device_count=0).result
    assert "no device can be seen" in result["advice"]
    assert result["action"] == "out_of_service"


def test_an_output_larger_than_its_buffer_makes_it_grow_once(tmp_path):
    result = run(tmp_path, "output_growth", 1_000_000, {}).result
    assert result["right"]
    assert [fault["action"] for fault in result["faults"]] == ["", "", "", ""]
    assert result["grown"] >= MIB


def test_an_output_larger_than_its_bound_is_the_requests_fault_and_names_the_option(tmp_path):
    result = run(tmp_path, "output_growth", 500_000, {"max_output_bytes": "y=1500000"}).result
    actions = [fault["action"] for fault in result["faults"]]
    assert actions == ["request", "", "request", "request"]
    assert "output y needs 2000000 bytes" in result["faults"][0]["advice"]
    assert "max_output_bytes allows 1500000" in result["faults"][0]["advice"]


def test_no_memory_to_grow_is_a_passing_condition_told_with_numbers(tmp_path):
    result = run(tmp_path, "output_growth", 4_000_000, {}, device_memory_bytes=16 * MIB).result
    actions = [fault["action"] for fault in result["faults"]]
    assert actions == ["retry", "", "retry", "retry"]
    assert "bytes are free now" in result["faults"][0]["advice"]
    assert models.WEIGHTS_BYTES
