"""Device and pinned memory, copies, and the host's hands off the device's memory (points 5, 6, 7)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator.makers import run_function

if TYPE_CHECKING:
    import acl
    import numpy as np

    from tests.emulator.session import D2D, D2H, H2D, H2H, UINT8, Session, ok


def test_allocates_aligned_poisoned_memory_within_the_capacity(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        assert acl.rt.malloc(0, 0) == (0, 100000)
        assert acl.rt.malloc_host(0) == (0, 100000)
        assert acl.rt.free(0) == 100000
        assert acl.rt.free_host(0) == 100000
        assert acl.rt.malloc(1 << 20, 0) == (0, 207001)
        assert "are free" in (acl.get_recent_err_msg() or "")
        first, second = ok(acl.rt.malloc(100, 0)), ok(acl.rt.malloc(100, 77))
        host = ok(acl.rt.malloc_host(100))
        assert first % 64 == second % 64 == host % 64 == 0
        assert acl.rt.get_mem_info(1) == ((1 << 20) - 2 * 160, 1 << 20, 0)
        ok(acl.rt.memcpy(host, 100, first, 100, D2H))
        view = acl.util.ptr_to_numpy(host, (100,), UINT8)
        assert np.isnan(view.view(np.float32)).all()
        assert np.isnan(view.view(np.float16)).all()
        for pointer in (first, second):
            ok(acl.rt.free(pointer))
        ok(acl.rt.free_host(host))
        assert acl.rt.get_mem_info(1) == (1 << 20, 1 << 20, 0)
        session.close()

    ended = run_function(tmp_path, program, device_memory_bytes=1 << 20)
    assert (ended.violations, ended.leaks) == ([], [])


def test_records_wrong_frees(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        device, host = ok(acl.rt.malloc(64, 0)), ok(acl.rt.malloc_host(64))
        assert acl.rt.free(host) != 0
        assert acl.rt.free_host(device) != 0
        assert acl.rt.free(device + 8) != 0
        ok(acl.rt.free(device))
        ok(acl.rt.free_host(host))
        assert acl.rt.free(device) != 0
        assert acl.rt.free(12345) != 0
        session.close()

    ended = run_function(tmp_path, program)
    assert len(ended.violations) == 5
    assert "free_host" in ended.violations[0]
    assert "no start of memory" in ended.violations[2]
    assert "freed twice" in ended.violations[3]
    assert ended.leaks == []


def test_copies_in_all_directions_and_checks_sizes_and_kinds(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        source = np.arange(64, dtype=np.uint8)
        target = np.zeros(64, dtype=np.uint8)
        first, second = ok(acl.rt.malloc(64, 0)), ok(acl.rt.malloc(64, 0))
        ok(acl.rt.memcpy(first, 64, source.ctypes.data, 64, H2D))
        ok(acl.rt.memcpy(second, 64, first, 64, D2D))
        ok(acl.rt.memcpy(target.ctypes.data, 64, second, 64, D2H))
        assert np.array_equal(source, target)
        target[:] = 0
        ok(acl.rt.memcpy(target.ctypes.data, 64, source.ctypes.data, 32, H2H))
        assert np.array_equal(source[:32], target[:32])
        ok(acl.rt.memset(first + 8, 56, 7, 8))
        ok(acl.rt.memcpy(target.ctypes.data, 64, first, 64, 4))
        assert target.tolist() == [*range(8), *[7] * 8, *range(16, 64)]
        assert acl.rt.memcpy(first, 64, source.ctypes.data, 0, H2D) == 0
        assert acl.rt.memcpy(0, 64, source.ctypes.data, 64, H2D) == 100000
        assert acl.rt.memcpy(first, 64, 0, 64, H2D) == 100000
        assert acl.rt.memcpy(first, 64, source.ctypes.data, 64, 6) == 100000
        assert acl.rt.memcpy(first, 32, source.ctypes.data, 64, H2D) != 0
        assert acl.rt.memcpy_async(target.ctypes.data, 64, source.ctypes.data, 64, H2H, session.stream) == 207000
        for pointer in (first, second):
            ok(acl.rt.free(pointer))
        session.close()

    ended = run_function(tmp_path, program)
    assert (ended.violations, ended.leaks) == ([], [])


def test_records_copies_beyond_an_allocation_and_with_a_freed_one(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        host = ok(acl.rt.malloc_host(4096))
        device = ok(acl.rt.malloc(100, 0))
        assert acl.rt.memcpy(device, 110, host, 110, H2D) == 0  # within the allocator's rounding: hardware lets it pass
        assert acl.rt.memcpy(device, 4096, host, 4096, H2D) != 0
        ok(acl.rt.free(device))
        assert acl.rt.memcpy(device, 100, host, 100, H2D) != 0
        ok(acl.rt.free_host(host))
        session.close()

    violations = run_function(tmp_path, program).violations
    assert ["beyond" in text or "freed already" in text for text in violations] == [True, True, True]


@pytest.mark.parametrize("strict", [True, False])
def test_records_a_kind_that_is_not_that_of_the_addresses_when_strict(tmp_path: Path, strict: bool) -> None:
    def program() -> None:
        session = Session()
        host, device = ok(acl.rt.malloc_host(64)), ok(acl.rt.malloc(64, 0))
        assert acl.rt.memcpy(device, 64, host, 64, D2H) == 0
        assert acl.rt.memcpy(host, 64, device, 64, D2D) == 0
        ok(acl.rt.free(device))
        ok(acl.rt.free_host(host))
        session.close()

    assert len(run_function(tmp_path, program, strict=strict).violations) == (2 if strict else 0)


def test_reads_pinned_memory_when_the_stream_gets_there_and_pageable_memory_at_once(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        device = ok(acl.rt.malloc(64, 0))
        host = ok(acl.rt.malloc_host(64))
        pinned = acl.util.ptr_to_numpy(host, (64,), UINT8)
        pageable = np.ones(64, dtype=np.uint8)
        result = np.zeros(64, dtype=np.uint8)

        def after(pointer: int, kind: int, memory: object) -> int:
            memory[:] = 1  # type: ignore[index]
            ok(acl.rt.memcpy_async(device, 64, pointer, 64, kind, session.stream))
            memory[:] = 9  # type: ignore[index]
            ok(acl.rt.synchronize_stream(session.stream))
            ok(acl.rt.memcpy(result.ctypes.data, 64, device, 64, D2H))
            return int(result[0])

        assert after(host, H2D, pinned) == 9
        assert after(host, 5, pinned) == 1
        assert after(pageable.ctypes.data, H2D, pageable) == 1
        ok(acl.rt.free(device))
        ok(acl.rt.free_host(host))
        session.close()

    assert run_function(tmp_path, program).violations == []


def test_records_access_to_memory_that_queued_work_uses(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        other = ok(acl.rt.create_stream())
        first, second = ok(acl.rt.malloc(64, 0)), ok(acl.rt.malloc(64, 0))
        host = ok(acl.rt.malloc_host(64))
        ok(acl.rt.memcpy_async(first, 64, host, 64, H2D, session.stream))
        ok(acl.rt.memcpy(second, 64, first, 64, D2D))  # reads too early
        ok(acl.rt.memcpy_async(second, 64, first, 64, D2D, other))  # another stream: no order
        ok(acl.rt.memset(first, 64, 0, 64))  # overwrites
        ok(acl.rt.free_host(host))
        ok(acl.rt.synchronize_stream(session.stream))
        ok(acl.rt.synchronize_stream(other))
        for pointer in (first, second):
            ok(acl.rt.free(pointer))
        ok(acl.rt.destroy_stream(other))
        session.close()

    violations = run_function(tmp_path, program).violations
    assert len(violations) == 4
    assert all("not waited for" in text for text in violations)


def test_lets_an_event_order_two_streams(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        other = ok(acl.rt.create_stream())
        event = ok(acl.rt.create_event())
        first, second = ok(acl.rt.malloc(64, 0)), ok(acl.rt.malloc(64, 0))
        host = ok(acl.rt.malloc_host(64))
        view = acl.util.ptr_to_numpy(host, (64,), UINT8)
        view[:] = 3
        ok(acl.rt.memcpy_async(first, 64, host, 64, H2D, session.stream))
        ok(acl.rt.record_event(event, session.stream))
        ok(acl.rt.stream_wait_event(other, event))
        ok(acl.rt.memcpy_async(second, 64, first, 64, D2D, other))
        ok(acl.rt.synchronize_stream(other))
        assert acl.rt.query_event(event) == (0, 0)
        view[:] = 0
        ok(acl.rt.memcpy(host, 64, second, 64, D2H))
        assert view[0] == 3
        ok(acl.rt.synchronize_event(event))
        ok(acl.rt.destroy_event(event))
        ok(acl.rt.destroy_stream(other))
        for pointer in (first, second):
            ok(acl.rt.free(pointer))
        ok(acl.rt.free_host(host))
        session.close()

    ended = run_function(tmp_path, program)
    assert (ended.violations, ended.leaks) == ([], [])


def test_does_not_let_the_host_read_device_memory(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        device = ok(acl.rt.malloc(64, 0))
        host = ok(acl.rt.malloc_host(64))
        for call in (
            lambda: acl.util.ptr_to_bytes(device, 64),
            lambda: acl.util.ptr_to_numpy(device, (64,), UINT8),
            lambda: acl.util.ptr_to_numpy(host, (65,), UINT8),
        ):
            try:
                call()
            except RuntimeError:
                continue
            raise AssertionError("the host read memory that is not its own")
        assert acl.util.ptr_to_numpy(host, (4, 4), 11).shape == (4, 4)
        assert device > 1 << 47, "no process has memory there"
        ok(acl.rt.free(device))
        ok(acl.rt.free_host(host))
        session.close()

    violations = run_function(tmp_path, program).violations
    assert len(violations) == 3
    assert "device pointer" in violations[0]


def test_crashes_when_a_device_address_is_dereferenced(tmp_path: Path) -> None:
    def program() -> None:
        import ctypes

        Session()
        ctypes.string_at(ok(acl.rt.malloc(64, 0)), 64)

    with pytest.raises(AssertionError):
        run_function(tmp_path, program)


def test_shares_memory_between_host_and_device_on_the_device_side(tmp_path: Path) -> None:
    def program() -> None:
        session = Session()
        assert acl.rt.get_run_mode() == (0, 0)
        device = ok(acl.rt.malloc(64, 0))
        view = acl.util.ptr_to_numpy(device, (64,), UINT8)
        ok(acl.rt.memset(device, 64, 5, 64))
        assert view.tolist() == [5] * 64
        ok(acl.rt.free(device))
        session.close()

    assert run_function(tmp_path, program, run_mode=0).violations == []
