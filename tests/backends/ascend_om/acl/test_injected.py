"""A fault at every call that the runtime makes: the action that follows, no misuse and no leak afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.backends.ascend_om.acl.emulated import run

OPEN = ["init", "rt.get_device_count", "rt.set_device", "rt.create_context", "rt.get_run_mode", "get_version"]
LOAD = [
    *("rt.set_context", "rt.get_mem_info", "mdl.query_size", "rt.create_stream", "mdl.create_desc"),
    *("mdl.load_from_file", "mdl.get_desc", "mdl.get_input_dims", "mdl.get_output_dims", "mdl.get_dynamic_batch"),
    *("mdl.get_input_dynamic_gear_count", "mdl.get_input_dynamic_dims", "rt.malloc", "rt.malloc_host"),
    *("mdl.create_dataset", "create_data_buffer", "mdl.add_dataset_buffer"),
]
RUN = [
    *("rt.set_context", "mdl.set_input_dynamic_dims", "mdl.get_cur_output_dims", "rt.memcpy_async"),
    *("mdl.execute_async", "rt.synchronize_stream_with_timeout"),
]
RUN_FREE = [
    *("rt.set_context", "update_data_buffer", "create_tensor_desc", "mdl.set_dataset_tensor_desc", "rt.memcpy_async"),
    *("mdl.execute_async", "rt.synchronize_stream_with_timeout"),
    *("mdl.get_dataset_tensor_desc", "get_tensor_desc_dim_v2"),
]
GROW = ["rt.malloc", "rt.malloc_host"]
SHRINK = ["rt.free", "rt.free_host"]
"""Buffers that were outgrown: not being able to free one does not concern the run."""
CLOSE = [
    *("rt.set_context", "rt.synchronize_stream_with_timeout", "destroy_data_buffer", "mdl.destroy_dataset"),
    *("rt.free_host", "rt.free", "mdl.unload", "mdl.destroy_desc", "rt.destroy_stream", "rt.destroy_context"),
    *("rt.reset_device", "finalize"),
]
NO_CODE = {
    *("create_data_buffer", "mdl.create_desc", "mdl.create_dataset", "create_tensor_desc"),
    "mdl.get_dataset_tensor_desc",
}
"""Functions that give a handle and no code."""

Case = tuple[str, str, dict[str, Any]]

TEXT = "EE9999: made up"


def case(kind, when, function, code, **more):
    return kind, when, {"function": function, "code": code, "text": TEXT, **more}


def inject(folder, cases: Iterable[Case]):
    """Each case with its result; every fault must have come up, and nothing may be misused or left."""
    cases = list(cases)
    # left things are looked for after each case; at the end the dead devices' are told too
    results = run(folder, "injected", cases).result
    assert len(results) == len(cases)
    for (kind, when, fault), result in zip(cases, results, strict=True):
        name = f"{kind} {when} {fault}"
        assert result["injected"], f"{name}: was never called"
        assert not result["violations"], f"{name}: {result['violations']}"
        assert not result["leaks"], f"{name}: {result['leaks']}"
        yield name, fault.get("function"), result


def test_a_fault_while_opening_leaves_nothing_and_the_next_attempt_succeeds(tmp_path):
    for name, function, result in inject(tmp_path, (case("static", "open", f, 107001) for f in OPEN)):
        assert result["fault"]["action"] == "refuse", name
        assert result["fault"]["call"] == f"acl.{function}", name
        assert result["again"]["action"] == "", name


def test_a_fault_while_loading_refuses_the_model_and_the_next_load_succeeds(tmp_path):
    cases = [case("dims_gears", "load", f, 200001) for f in LOAD]
    cases.append(case("range", "load", "mdl.get_input_dims_range", 200001))
    for name, function, result in inject(tmp_path, cases):
        assert result["fault"]["action"] == "refuse", name
        assert result["fault"]["code"] == (0 if function in NO_CODE else 200001), name
        assert TEXT in result["fault"]["text"], name
        assert result["again"]["action"] == "", name


def test_memory_that_runs_out_at_any_buffer_of_a_load_is_all_given_back(tmp_path):
    cases = (case("dims_gears", "load", f, 207001, skip=skip) for f in GROW for skip in range(5))
    for name, _, result in inject(tmp_path, cases):
        assert result["fault"]["action"] == "refuse", name
        assert "bytes are free now" in result["fault"]["advice"], name
        assert result["again"]["action"] == "", name


def test_a_lost_context_while_loading_asks_for_a_new_process(tmp_path):
    for name, _, result in inject(tmp_path, (case("dims_gears", "load", f, 507015) for f in LOAD if f not in NO_CODE)):
        assert result["fault"]["action"] == result["again"]["action"] == "restart", name


def test_a_mild_fault_in_a_run_leaves_the_graph_able_to_run_or_asks_for_a_reload(tmp_path):
    cases = [case("dims_gears", when, f, 507002) for when in ("run", "second_run") for f in RUN]
    cases = [c for c in cases if c[1] == "run" or c[2]["function"] != "mdl.get_cur_output_dims"]
    cases += [case("unbounded", when, f, 507002) for when in ("run", "second_run") for f in RUN_FREE]
    cases += [case("range", "run", f, 507002) for f in GROW]
    for name, function, result in inject(tmp_path, cases):
        if function in NO_CODE:
            assert result["fault"]["action"] == result["again"]["action"] == "reload", name
        else:
            assert (result["fault"]["action"], result["fault"]["code"]) == ("retry", 507002), name
            assert result["again"]["action"] == "", name


def test_an_outgrown_buffer_that_cannot_be_freed_does_not_concern_the_run(tmp_path):
    for name, _, result in inject(tmp_path, (case("range", "run", f, 507002) for f in SHRINK)):
        assert result["fault"]["action"] == result["again"]["action"] == "", name


def test_a_hard_fault_in_a_run_ends_all_use_of_the_context(tmp_path):
    cases = []
    for code in (507015, 507054):
        cases += [case("dims_gears", "run", f, code) for f in RUN]
        cases += [case("unbounded", "run", f, code) for f in RUN_FREE if f not in NO_CODE]
        cases += [case("range", "run", f, code) for f in (*GROW, *SHRINK)]
    for (name, function, result), (_, _, fault) in zip(inject(tmp_path, cases), cases, strict=True):
        expected = {507015: "restart", 507054: "out_of_service"}[fault["code"]]
        assert result["again"]["action"] == expected, name
        assert result["fault"]["action"] == expected, name
        if function not in SHRINK:
            assert result["fault"]["code"] == fault["code"], name


def test_a_fault_of_the_work_itself_comes_up_at_the_synchronisation(tmp_path):
    codes = [507015, 507035, 507011, 507014, 507053]
    for (name, _, result), code in zip(
        inject(tmp_path, [case("dims_gears", "run", "device.task", code) for code in codes]), codes, strict=True
    ):
        assert result["fault"]["call"] == "acl.rt.synchronize_stream_with_timeout", name
        assert result["fault"]["code"] == code
        assert result["fault"]["action"] == ("out_of_service" if code == 507053 else "restart"), name
        assert TEXT in result["fault"]["text"], name
        assert result["again"]["action"] == result["fault"]["action"], name


def test_a_fault_that_asks_for_a_reload_stops_the_graph_until_then(tmp_path):
    ((_, _, result),) = inject(tmp_path, [case("static", "run", "mdl.execute_async", 145003)])
    assert result["fault"]["action"] == result["again"]["action"] == "reload"
    assert "given up by an earlier fault" in result["again"]["advice"]


def test_closing_goes_on_after_a_step_that_fails(tmp_path):
    cases = [
        case(kind, "close", f, code)
        for kind in ("dims_gears", "unbounded")
        for f in CLOSE
        for code in (200005, 507002, 507015)
    ]
    assert len(list(inject(tmp_path, cases))) == len(cases)


def test_a_fault_while_memory_is_asked_for_is_told(tmp_path):
    ((_, _, result),) = inject(tmp_path, [case("static", "memory", "rt.get_mem_info", 507899)])
    assert result["fault"]["action"] == "out_of_service"


@pytest.mark.parametrize("event", [{"device_lost": True}, {"ecc": True}])
def test_a_device_that_is_lost_or_has_bad_memory_goes_out_of_service(tmp_path, event):
    ((_, _, result),) = inject(tmp_path, [("dims_gears", "second_run", event)])
    assert result["fault"]["action"] == "out_of_service"
    assert result["again"]["action"] == "out_of_service"


def test_a_hung_run_is_given_up_after_the_watchdogs_time(tmp_path):
    result = run(tmp_path, "hang", 1200, 1.2).result
    assert 0.15 < result["waited_s"] < 1.0
    assert result["fault"]["action"] == "restart"
    assert result["fault"]["code"] == 507046
    assert "watchdog" in result["fault"]["advice"]
    assert result["again"]["action"] == "restart"
    assert result["other"]["action"] == "restart"


def test_a_device_that_never_comes_back_does_not_hold_up_the_end(tmp_path):
    assert run(tmp_path, "hang", 60_000, 0).result["close_s"] < 3
