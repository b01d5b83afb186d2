"""The runtime against the emulator: every kind of model, without a misuse and without a leak."""

from __future__ import annotations

import pytest
from om_backend.acl.budget import buffers_bytes

from tests.backends.ascend_om.acl import models
from tests.backends.ascend_om.acl.emulated import run

KINDS = ["static", "batch_gears", "dims_gears", "range", "unbounded"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_told_apart_and_gives_the_right_values(tmp_path, kind):
    result = run(tmp_path, "runs", kind, {}).result
    assert result["right"]
    assert result["description"]["kind"] == ("range" if kind == "unbounded" else kind)
    assert result["description"]["soc"] == models.SOC
    assert result["lost"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_runs_with_an_old_cann_too(tmp_path, kind):
    assert run(tmp_path, "runs", kind, {}, old_cann=True).result["right"]


@pytest.mark.parametrize("kind", KINDS)
def test_where_host_and_device_memory_are_one_nothing_is_copied(tmp_path, kind):
    outcome = run(tmp_path, "runs", kind, {}, run_mode=0)
    assert outcome.result["right"]
    assert not any("memcpy" in call or "malloc_host" in call for call in outcome.end["calls"])


def test_the_description_of_gears_names_all_inputs_in_the_models_order(tmp_path):
    description = run(tmp_path, "runs", "dims_gears", {}).result["description"]
    assert [tensor["name"] for tensor in description["inputs"]] == ["x", "scale", "mask"]
    assert {"x": [1, 2, 16], "scale": [1], "mask": [1, 16]} in description["gears"]
    assert len(description["gears"]) == 3


def test_ranges_are_known_from_the_device_and_with_an_old_cann_from_the_file(tmp_path):
    for old in (False, True):
        (tmp_path / str(old)).mkdir()
        description = run(tmp_path / str(old), "runs", "range", {}, old_cann=old).result["description"]
        assert description["inputs"][0]["ranges"] == [[1, 8], [1, 512]]


def test_memory_is_told_as_it_is_taken(tmp_path):
    result = run(tmp_path, "runs", "batch_gears", {}).result
    memory = result["description"]["memory"]
    assert memory["weights_bytes"] == models.WEIGHTS_BYTES
    assert memory["work_bytes"] == models.WORK_BYTES
    assert memory["buffers_bytes"] == buffers_bytes([4 * 8 * 4, 4 * 8 * 4, 4])
    assert abs(result["taken"] - sum(memory.values())) < 1024


def test_graphs_of_all_kinds_live_side_by_side(tmp_path):
    assert run(tmp_path, "several_at_once").result


def test_loading_and_unloading_fifty_times_loses_nothing(tmp_path):
    assert run(tmp_path, "reloads", 50).result == {"right": True, "lost": 0}


def test_a_device_may_be_opened_again_in_the_same_process(tmp_path):
    assert run(tmp_path, "reopens", 5).result


def test_two_runtimes_in_one_process_do_not_close_each_other(tmp_path):
    outcome = run(tmp_path, "two_users")
    assert outcome.result
    assert outcome.end["calls"]["acl.init"] == 1
    assert outcome.end["calls"]["acl.finalize"] == 1


def test_any_thread_may_load_run_and_close(tmp_path):
    assert run(tmp_path, "threads").result


def test_an_ascendcl_that_another_library_opened_is_used_and_left_open(tmp_path):
    outcome = run(tmp_path, "runs", "static", {}, already_initialised=True)
    assert outcome.result["right"]
    assert "acl.finalize" not in outcome.end["calls"]


def test_a_forked_child_is_refused_with_a_reason(tmp_path):
    running, opening = run(tmp_path, "forked", clean=False).result
    for fault in (running, opening):
        assert fault["action"] == "restart"
        assert "forked" in fault["advice"]


@pytest.mark.parametrize("kind", ["static", "batch_gears", "dims_gears"])
def test_a_run_of_fixed_shapes_allocates_and_builds_nothing(tmp_path, kind):
    calls = run(tmp_path, "calls_per_run", kind).result
    allowed = {
        "acl.rt.set_context",
        "acl.rt.memcpy_async",
        "acl.mdl.set_dynamic_batch_size",
        "acl.mdl.set_input_dynamic_dims",
        "acl.mdl.execute_async",
        "acl.rt.synchronize_stream_with_timeout",
    }
    assert set(calls) <= allowed
    assert calls["acl.rt.synchronize_stream_with_timeout"] == calls["acl.mdl.execute_async"]


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("batch_gears", [((32 * n,), (32 * n,)) for n in (4, 1, 2, 1)]),
        ("dims_gears", [((8 * n, 4, 4 * n), (8 * n, 4)) for n in (64, 16, 32, 16)]),
        ("range", [((4 * n,), (4 * n,)) for n in (4096, 1, 21, 210, 4096, 512)]),
    ],
)
def test_only_the_true_bytes_are_copied(tmp_path, kind, sizes):
    expected = [
        [direction, size] for run_ in sizes for direction, part in zip((1, 2), run_, strict=True) for size in part
    ]
    assert run(tmp_path, "copied_bytes", kind).result == expected


@pytest.mark.parametrize("kind", ["range", "unbounded"])
def test_a_run_of_free_shapes_allocates_only_to_grow(tmp_path, kind):
    calls = run(tmp_path, "calls_per_run", kind).result
    assert not {"acl.rt.malloc", "acl.rt.malloc_host", "acl.mdl.create_dataset", "acl.create_data_buffer"} & set(calls)
    assert calls["acl.create_tensor_desc"] == calls["acl.destroy_tensor_desc"]


def test_half_precision_goes_through_bit_by_bit(tmp_path):
    result = run(tmp_path, "half").result
    assert result == {"dtype": "FP16", "right": True, "fault": "request"}


def test_tensors_with_very_long_names_are_known_by_them(tmp_path):
    names = run(tmp_path, "long_names").result
    assert names == [models.LONG_NAME]


def test_nothing_is_done_with_what_is_closed(tmp_path):
    actions = run(tmp_path, "after_the_end").result
    assert actions == ["reload", "restart", "restart"]


@pytest.mark.parametrize("kind", ["static", "batch_gears", "dims_gears"])
def test_the_runtimes_own_part_of_a_run_takes_microseconds(tmp_path, kind):
    # about 15 us on an idle core; the bound leaves room for a busy machine and none for allocations per run
    assert run(tmp_path, "host_cost", kind, 500, compute=False).result["own_us"] < 150


def test_the_synchronous_call_is_never_made(tmp_path):
    calls = run(tmp_path, "several_at_once").end["calls"]
    assert calls["acl.mdl.execute_async"] > 0
    assert not {"acl.mdl.execute", "acl.mdl.execute_v2", "acl.rt.memcpy", "acl.rt.synchronize_stream"} & set(calls)
