"""What the loader checks, and the descriptor (points 8 and 9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator import makers
from tests.emulator.makers import run_function
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import OmHeader, OmTensor

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import Session, ok


def test_numbers_models_from_one_upward_and_knows_the_unloaded_ones(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        assert acl.mdl.load_from_file(path) == (1, 0)
        assert acl.mdl.load_from_file(path) == (2, 0)
        ok(acl.mdl.unload(1))
        assert acl.mdl.load_from_file(path) == (3, 0)
        assert acl.mdl.unload(1) == 145003
        assert acl.mdl.unload(99) == 145003
        desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(desc, 1) == 145003
        data = np.fromfile(path, dtype=np.uint8)
        assert acl.mdl.load_from_mem(data.ctypes.data, data.size) == (4, 0)
        for number in (2, 3, 4):
            ok(acl.mdl.unload(number))
        ok(acl.mdl.destroy_desc(desc))
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_tells_the_reasons_of_a_refused_file_apart(tmp_path: Path) -> None:
    def program(folder: str) -> None:
        session = Session()

        def refused(name: str) -> tuple[int, str]:
            number, code = acl.mdl.load_from_file(f"{folder}/{name}")
            assert number == 0
            return code, acl.get_recent_err_msg() or ""

        expected = {
            "missing.om": (145002, "E13000"),
            "huawei.om": (145006, "offline model of Huawei"),
            "graph.om": (145006, "ONNX"),
            "cut.om": (145006, "cut off"),
            "damaged.om": (145006, "checksum"),
            "other_soc.om": (500002, "Ascend310P3"),
            "old_opp.om": (500002, "opp version of the model does not match"),
            "wrong_graph.om": (545001, "has no input"),
        }
        for name, (code, part) in expected.items():
            found, text = refused(name)
            assert (found, part in text) == (code, True), (name, found, text)
        session.close()

    good = makers.write_static(tmp_path / "good.om").read_bytes()
    (tmp_path / "huawei.om").write_bytes(b"IMOD" + bytes(300))
    (tmp_path / "graph.om").write_bytes(makers.scale_graph(2, 8))
    (tmp_path / "cut.om").write_bytes(good[:60])
    (tmp_path / "damaged.om").write_bytes(good[:-40] + b"\x00" + good[-39:])
    makers.write_static(tmp_path / "other_soc.om", soc="Ascend310P3")
    makers.write_range(tmp_path / "old_opp.om", opp_version="7.0")
    header = emulated_om.read_header(tmp_path / "good.om")
    makers.write_onnx(tmp_path / "wrong_graph.om", makers.gather_graph(), header)
    ended = run_function(tmp_path, program, tmp_path)
    assert (ended.violations, ended.leaks) == ([], [])


def test_runs_on_a_slice_of_a_chip_only_what_was_built_for_slices(tmp_path: Path) -> None:
    def program(whole: str, slices: str) -> None:
        session = Session()
        assert acl.mdl.load_from_file(whole) == (0, 507009)
        ok(acl.mdl.unload(ok(acl.mdl.load_from_file(slices))))
        session.close()

    whole = makers.write_static(tmp_path / "whole.om")
    run_function(tmp_path, program, whole, makers.write_static(tmp_path / "slices.om", virtual_type=1), vnpu=True)


def test_charges_models_to_the_device_memory_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    def program(path: str, ranged: str) -> None:
        session = Session()
        assert acl.mdl.query_size(path) == (5000, 3000, 0)
        assert acl.mdl.query_size(ranged)[2] != 0
        number = ok(acl.mdl.load_from_file(path))
        assert acl.rt.get_mem_info(1) == (20_000 - 8000, 20_000, 0)
        second = ok(acl.mdl.load_from_file(path))
        assert acl.mdl.load_from_file(path) == (0, 245002)
        assert "8000 bytes" in (acl.get_recent_err_msg() or "")
        ok(acl.mdl.unload(number))
        ok(acl.mdl.unload(second))
        work, weights = ok(acl.rt.malloc(5000, 0)), ok(acl.rt.malloc(3000, 0))
        assert acl.mdl.load_from_file_with_mem(path, work, 4999, weights, 3000)[1] == 500002
        used = acl.rt.get_mem_info(1)[0]
        third = ok(acl.mdl.load_from_file_with_mem(path, work, 5000, weights, 3000))
        assert acl.rt.get_mem_info(1)[0] == used, "it lives in our memory"
        ok(acl.mdl.unload(third))
        ok(acl.rt.free(work))
        ok(acl.rt.free(weights))
        session.close()

    static = makers.write_static(tmp_path / "m.om", work_bytes=5000, weights_bytes=3000)
    ended = run_function(tmp_path, program, static, makers.write_range(tmp_path / "r.om"), device_memory_bytes=20_000)
    assert (ended.violations, ended.leaks) == ([], [])


def test_loads_with_a_config(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        config = acl.mdl.create_config_handle()
        ok(acl.mdl.set_config_opt(config, 1, 1))
        ok(acl.mdl.set_config_opt(config, 2, path))
        ok(acl.mdl.unload(ok(acl.mdl.load_with_config(config))))
        assert acl.mdl.set_config_opt(config, 77, 1) == 100000
        ok(acl.mdl.destroy_config_handle(config))
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


DESCRIBED = {
    "static": (2, 64, [2, 8], [2, 8], 64),
    "batch": (3, 128, [-1, 8], [4, 8], 128),
    "dims": (3, 128, [-1, -1], [2, 16], 128),
    "range": (2, 1024, [-1, -1], [-1, -1], 1024),
    "unbounded": (2, 0, [-1, -1], [-1, -1], 0),
}


@pytest.mark.parametrize("from_file", [True, False])
@pytest.mark.parametrize("kind", DESCRIBED)
def test_describes_sizes_and_dims_of_each_kind(tmp_path: Path, kind: str, from_file: bool) -> None:
    def program(path: str, from_file: str, inputs: str, size: str, dims: str, out_dims: str, out_size: str) -> None:
        session = Session()
        desc = acl.mdl.create_desc()
        number = 0
        if from_file == "True":
            ok(acl.mdl.get_desc_from_file(desc, path))
        else:
            number = ok(acl.mdl.load_from_file(path))
            ok(acl.mdl.get_desc(desc, number))
        assert acl.mdl.get_num_inputs(desc) == int(inputs)
        assert acl.mdl.get_num_outputs(desc) == 1
        assert acl.mdl.get_input_size_by_index(desc, 0) == int(size)
        found, code = acl.mdl.get_input_dims(desc, 0)
        assert (code, found["name"], found["dimCount"], str(found["dims"])) == (0, "x", 2, dims)
        assert str(ok(acl.mdl.get_output_dims(desc, 0))["dims"]) == out_dims
        assert acl.mdl.get_output_size_by_index(desc, 0) == int(out_size)
        if number:
            ok(acl.mdl.unload(number))
        ok(acl.mdl.destroy_desc(desc))
        session.close()

    path = tmp_path / "m.om"
    write: dict[str, Callable[[Path], Path]] = {
        "static": makers.write_static,
        "batch": makers.write_batch_gears,
        "dims": makers.write_dims_gears,
        "range": makers.write_range,
        "unbounded": lambda file: makers.write_range(file, unbounded=True),
    }
    write[kind](path)
    ended = run_function(tmp_path, program, path, from_file, *DESCRIBED[kind])
    assert (ended.violations, ended.leaks) == ([], [])


def test_answers_wrong_indexes_and_names_as_documented(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        number = ok(acl.mdl.load_from_file(path))
        desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(desc, number))
        assert acl.mdl.get_input_dims(desc, 9) == ({}, 100000)
        assert acl.mdl.get_output_dims(desc, 9) == ({}, 100000)
        assert acl.mdl.get_cur_output_dims(desc, 9) == ({}, 100000)
        assert acl.mdl.get_input_size_by_index(desc, 9) == 0
        assert acl.mdl.get_output_size_by_index(desc, 9) == 0
        assert acl.mdl.get_input_name_by_index(desc, 9) == ""
        assert acl.mdl.get_output_data_type(desc, 9) == -1
        assert acl.mdl.get_input_format(desc, 9) == -1
        assert acl.mdl.get_input_index_by_name(desc, "scale") == (1, 0)
        assert acl.mdl.get_input_index_by_name(desc, "none")[1] == 100000
        assert acl.mdl.get_input_name_by_index(desc, 0) == "x"
        assert acl.mdl.get_input_data_type(desc, 0) == 0
        assert acl.mdl.get_output_format(desc, 0) == 2
        assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
        assert acl.mdl.get_dynamic_hw(desc, 0)[0]["hwCount"] == 0
        assert acl.mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
        assert acl.mdl.get_input_dynamic_gear_count(desc, 0) == (0, 100000)
        assert acl.mdl.get_input_dims_range(desc, 0)[0] == {"rangeCount": 2, "range": [[2, 2], [8, 8]]}
        ok(acl.mdl.unload(number))
        ok(acl.mdl.destroy_desc(desc))
        session.close()

    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_shows_a_made_up_name_for_one_that_is_too_long(tmp_path: Path) -> None:
    def program(path: str, long: str) -> None:
        session = Session()
        desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc_from_file(desc, path))
        shown = acl.mdl.get_input_name_by_index(desc, 0)
        assert shown.startswith("acl_")
        assert acl.mdl.get_tensor_real_name(desc, shown) == long
        ok(acl.mdl.destroy_desc(desc))
        session.close()

    long = "x" * 200
    path = tmp_path / "m.om"
    tensor = OmTensor(long, "FP32", (4,))
    header = OmHeader("long", makers.SOC, "static", (tensor,), (OmTensor("y", "FP32", (4,)),))
    makers.write_onnx(path, makers.scale_graph(4, 1), header)
    run_function(tmp_path, program, path, long)
