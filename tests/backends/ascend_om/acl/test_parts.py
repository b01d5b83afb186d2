"""Options, memory budget, order of releases: parts that need no device."""

from __future__ import annotations

import pytest
from om_backend.acl.budget import check_budget
from om_backend.acl.memory import on_device, padded
from om_backend.acl.options import MAX_OUTPUT_BYTES, read_options
from om_backend.acl.owned import Owned
from om_backend.device.description import DeviceMemory, MemoryNeed
from om_backend.device.faults import Action, DeviceFault

MIB = 1 << 20


def test_options_have_defaults_and_leave_those_of_others_alone():
    options = read_options({"device_ids": "0;1"})
    assert options.watchdog_ms == 30_000
    assert options.output_bound_bytes("audio") == MAX_OUTPUT_BYTES


def test_output_bounds_are_given_for_all_or_by_name():
    options = read_options({"max_output_bytes": "1000, audio=5000"})
    assert options.output_bound_bytes("audio") == 5000
    assert options.output_bound_bytes("durations") == 1000


@pytest.mark.parametrize(
    "options",
    [
        {"watchdog_ms": "0"},
        {"watchdog_ms": "soon"},
        {"watchdog_ms": "3000000000"},
        {"max_output_bytes": "audio="},
        {"max_output_bytes": "-1"},
        {"memory_reserve_bytes": "1.5"},
    ],
)
def test_an_option_out_of_range_is_refused_by_name(options):
    with pytest.raises(DeviceFault, match=next(iter(options))) as met:
        read_options(options)
    assert met.value.action is Action.REFUSE


def test_memory_that_does_not_suffice_is_told_with_all_numbers():
    need = MemoryNeed(weights_bytes=300 * MIB, work_bytes=200 * MIB, buffers_bytes=10 * MIB)
    check_budget("m.om", need, DeviceMemory(510 * MIB, 1024 * MIB))
    with pytest.raises(DeviceFault) as met:
        check_budget("m.om", need, DeviceMemory(509 * MIB, 1024 * MIB))
    assert met.value.action is Action.REFUSE
    for number in ("510.0", "300.0", "200.0", "10.0", "509.0", "1024.0"):
        assert f"{number} MiB" in met.value.advice


def test_a_reserve_is_kept_free():
    with pytest.raises(DeviceFault, match="held in reserve"):
        check_budget("m.om", MemoryNeed(weights_bytes=MIB), DeviceMemory(2 * MIB, 4 * MIB), reserve_bytes=2 * MIB)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, MIB, 5 * MIB + 1])
def test_buffers_are_aligned_and_have_the_documented_slack(size):
    assert padded(size) % 64 == 0
    assert padded(size) >= size + 64
    assert on_device(size) >= padded(size)
    assert size < MIB or on_device(size) % (2 * MIB) == 0


def fail(times, action=Action.RETRY, code=200005):
    left = [times]

    def step():
        if left[0]:
            left[0] -= 1
            raise DeviceFault("step", code, action, "failed")

    return step


def test_releases_go_backwards_and_on_after_a_failure_and_only_once():
    done = []
    owned = Owned("test")
    owned.add("a", lambda: done.append("a"))
    owned.add("b", fail(2))
    owned.add("c", lambda: done.append("c"))
    assert len(owned.release()) == 1
    assert done == ["c", "a"]
    assert owned.release() == []
    assert done == ["c", "a"]


def test_a_failed_release_is_tried_once_more():
    owned = Owned("test")
    step = fail(1)
    owned.add("a", step)
    assert owned.release() == []
    step()  # would raise if the second attempt had not been made


def test_a_release_in_a_lost_context_is_not_repeated():
    owned = Owned("test")
    owned.add("a", fail(9, Action.RESTART, 507015))
    assert len(owned.release()) == 1
