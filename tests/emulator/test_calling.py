"""Arguments, return shapes, start and end, error texts, missing functions (points 1, 2, 3, 18, 20)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator.makers import run_function, write_static

if TYPE_CHECKING:
    import threading
    import warnings
    from collections.abc import Callable
    from typing import Any

    import acl
    import numpy as np

    from tests.emulator.session import Model, Session, floats, ok


def test_takes_positional_arguments_only_and_names_the_call_in_the_type_error(tmp_path: Path) -> None:
    def program() -> None:
        def refused(call: Callable[[], Any]) -> str:
            try:
                call()
            except TypeError as error:
                return str(error)
            raise AssertionError("no TypeError")

        assert refused(lambda: acl.rt.malloc(size=64, policy=0)) == "acl.rt.malloc args parse failed"  # type: ignore[call-arg]
        assert refused(lambda: acl.rt.malloc(64)) == "acl.rt.malloc args parse failed"  # type: ignore[call-arg]
        assert refused(lambda: acl.rt.malloc(64, 0, 0)) == "acl.rt.malloc args parse failed"  # type: ignore[call-arg]
        assert refused(lambda: acl.rt.malloc("64", 0)) == "acl.rt.malloc args parse failed"  # type: ignore[arg-type]
        assert refused(lambda: acl.rt.malloc(np.int64(64), 0)) == "acl.rt.malloc args parse failed"  # type: ignore[arg-type]
        assert refused(lambda: acl.rt.set_device(0.0)) == "acl.rt.set_device args parse failed"  # type: ignore[arg-type]
        assert refused(lambda: acl.init(None)) == "acl.init args parse failed"
        assert refused(lambda: acl.create_tensor_desc(0, (1, 2), 2)) == "acl.create_tensor_desc args parse failed"  # type: ignore[arg-type]
        refused(lambda: acl.mdl.set_input_dynamic_dims(1, 1, 1, [1, 2]))
        refused(lambda: acl.mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 1, "dims": ["1"]}))
        refused(lambda: acl.util.ptr_to_numpy(64, [4], 2))  # type: ignore[arg-type]

    assert run_function(tmp_path, program).leaks == []


def test_wraps_negative_and_wide_integers_as_the_c_conversion_does(tmp_path: Path) -> None:
    def program() -> None:
        handle = acl.create_data_buffer(-1, 1 << 64 | 7)
        assert acl.get_data_buffer_addr(handle) == (1 << 64) - 1
        assert acl.get_data_buffer_size_v2(handle) == 7
        assert acl.update_data_buffer(handle, 0, 1 << 32 | 5) == 0
        assert acl.get_data_buffer_size(handle) == 5
        assert acl.destroy_data_buffer(handle) == 0

    assert run_function(tmp_path, program).violations == []


def test_gives_plain_integers_as_handles_and_the_documented_return_shapes(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        model = Model(session, path)
        dataset = acl.mdl.create_dataset()
        buffer = acl.create_data_buffer(0, 0)
        assert acl.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
        desc = acl.create_tensor_desc(0, [2, 8], 2)
        assert acl.mdl.set_dataset_tensor_desc(dataset, desc, 0) == (dataset, 0)
        assert acl.destroy_tensor_desc(desc) is None
        for handle in (dataset, buffer, desc, session.context, session.stream, model.desc, model.id):
            assert type(handle) is int
        assert acl.mdl.get_dataset_num_buffers(dataset) == 1
        assert acl.mdl.get_dataset_buffer(dataset, 0) == buffer
        assert acl.mdl.get_dataset_buffer(dataset, 1) == 0
        free, total, code = acl.rt.get_mem_info(1)
        assert (code, free < total, total) == (0, True, 64 << 30)
        assert acl.rt.get_run_mode() == (1, 0)
        assert acl.rt.get_device_count() == (1, 0)
        assert acl.rt.get_device() == (0, 0)
        assert acl.get_soc_name() == "Ascend910B3"
        assert len(acl.get_version()) == 4
        assert acl.rt.query_device_status(0) == (0, 0)
        assert acl.rt.get_device_utilization_rate(0)[0]["cube_utilization"] == -1
        assert [acl.data_type_size(n) for n in (-1, 0, 1, 13, 27, 29, 30, 33, 16, 17, 99)] == [
            *(0, 4, 2, 0, 2, 1, 1, 4, 8, 16, 8)
        ]
        assert acl.float16_to_float(acl.float_to_float16(0.5)) == 0.5
        ok(acl.mdl.destroy_dataset(dataset))
        ok(acl.destroy_data_buffer(buffer))
        model.close()
        session.close()

    ended = run_function(tmp_path, program, write_static(tmp_path / "m.om"))
    assert (ended.violations, ended.leaks) == ([], [])


def test_counts_initialisations_and_refuses_a_second_end(tmp_path: Path) -> None:
    def program() -> None:
        assert acl.init() == 0
        assert acl.init() == 100002
        assert acl.finalize_reference() == (1, 0)
        assert acl.finalize_reference() == (0, 0)
        assert acl.finalize() == 100037
        assert acl.init() == 0
        assert acl.init() == 100002
        assert acl.finalize() == 0
        assert acl.finalize() == 100037
        assert acl.rt.reset_device(0) == 507007

    assert [v for v in run_function(tmp_path, program).violations if "reset_device" not in v] == []


def test_reads_the_configuration_file_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    def program(folder: str) -> None:
        assert acl.init(f"{folder}/none.json") == 100003
        assert acl.init(f"{folder}/bad.json") == 100006
        assert acl.init(f"{folder}/deep.json") == 100006
        assert acl.init(f"{folder}/good.json") == 0
        assert acl.init(f"{folder}/deep.json") == 100000

    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "deep.json").write_text('{"a":' * 11 + "1" + "}" * 11)
    (tmp_path / "good.json").write_text('{"err_msg_mode": "1"}')
    run_function(tmp_path, program, tmp_path)


def test_records_calls_before_the_start_and_after_the_end(tmp_path: Path) -> None:
    def program(path: str) -> None:
        assert acl.rt.set_device(0) == 0
        assert acl.mdl.load_from_file(path) == (0, 145001)
        ok(acl.init())
        number = ok(acl.mdl.load_from_file(path))
        ok(acl.mdl.unload(number))
        ok(acl.finalize())
        assert acl.mdl.load_from_file(path) == (0, 145001)
        ok(acl.rt.reset_device(0))

    ended = run_function(tmp_path, program, write_static(tmp_path / "m.om"))
    assert ended.violations == [
        "acl.rt.set_device: called before acl.init",
        "acl.mdl.load_from_file: called before acl.init",
        "acl.mdl.load_from_file: called after acl.finalize",
        "acl.rt.reset_device: called after acl.finalize",
    ]


def test_records_the_finalizing_of_what_another_library_initialised(tmp_path: Path) -> None:
    def program() -> None:
        assert acl.init() == 100002
        assert acl.finalize() == 0

    ended = run_function(tmp_path, program, already_initialised=True)
    assert len(ended.violations) == 1
    assert "only the owner may finalize" in ended.violations[0]


def test_gives_error_texts_newest_first_once_and_to_their_own_thread_only(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        assert acl.get_recent_err_msg() is None
        acl.rt.malloc(0, 0)
        acl.rt.set_device(9)
        heard: list[str | None] = []
        thread = threading.Thread(target=lambda: heard.append(acl.get_recent_err_msg()))
        thread.start()
        thread.join()
        assert heard == [None]
        text = acl.get_recent_err_msg()
        assert text is not None
        newest, oldest = text.splitlines()
        assert "device id 9" in newest
        assert "size" in oldest
        assert acl.get_recent_err_msg() is None
        session.close()

    assert run_function(tmp_path, program).violations == []


NEWER = [
    "finalize_reference",
    "get_cann_version",
    "rt.reset_device_force",
    "mdl.get_input_dims_range",
    "mdl.execute_v2",
    "mdl.get_desc_from_file",
]


@pytest.mark.parametrize("old", [True, False])
def test_lacks_the_newer_functions_only_when_it_plays_an_old_version(tmp_path: Path, old: bool) -> None:
    def program(old: str, *names: str) -> None:
        for name in names:
            space, _, function = name.rpartition(".")
            module = getattr(acl, space) if space else acl
            assert hasattr(module, function) == (old == "False"), name

    run_function(tmp_path, program, old, *NEWER, old_cann=old)


def test_warns_of_arrays_whose_pointer_is_of_no_use(tmp_path: Path) -> None:
    def program() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            acl.util.numpy_to_ptr(floats(4, 4)[:, 1])
        assert [item.category for item in caught] == [DeprecationWarning, UserWarning]
        pointer, kept = acl.util.numpy_contiguous_to_ptr(floats(4, 4)[:, 1])
        assert np.array_equal(acl.util.ptr_to_numpy(pointer, (4,), 11), kept)
        kept_bytes = b"abcdef"
        assert acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(kept_bytes), 6) == kept_bytes
        for call in (acl.util.numpy_to_ptr, acl.util.bytes_to_ptr):
            try:
                call([1])  # type: ignore[arg-type]
            except ValueError:
                continue
            raise AssertionError("no ValueError")

    ended = run_function(tmp_path, program)
    assert len(ended.violations) == 1
    assert "not C-contiguous" in ended.violations[0]
