"""Damaged files: whatever is done to a file, it is read or refused with a sentence, quickly and in little memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.om import builder
from voxrepo_contract import om
from voxrepo_contract.errors import ConfigError

FILES = 10_000
LONGEST_S = 60.0
SLOWEST_FILE_S = 5.0
MOST_MEMORY_BYTES = 64 << 20
EDGES = (0, 1, 7, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1)
SEEDS = {name: make().write() for name, make in builder.EVERY.items()}


def is_refused(data: bytes) -> bool:
    """Whether ``data`` is refused; any other exception fails the test."""
    try:
        read = om.read(data, "model.om")
    except ConfigError as error:
        assert str(error).startswith("model.om: ")
        return True
    assert read.inputs or read.outputs
    assert all(size >= 1 for gear in read.gears for dims in gear.values() for size in dims if size != 0)
    om.check_fits(read, "Ascend310P3", "1.0", om.Host("linux", "x86_64", True))
    return False


def with_true_length(data: bytes) -> bytes:
    """The same with the header's length made right, so that the damage is met further in."""
    out = bytearray(data)
    if len(out) >= 256:
        wide = struct.unpack_from("<Q", out, 184)[0] != 0
        struct.pack_into("<Q" if wide else "<I", out, 184 if wide else 76, len(out) - 256)
    return bytes(out)


def flip(dice: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8, 64))):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def truncate(dice: random.Random, data: bytes) -> bytes:
    cut = data[: dice.randrange(len(data))]
    return with_true_length(cut) if dice.random() < 0.7 else cut


def edit_a_length(dice: random.Random, data: bytes) -> bytes:
    """Overwrite a number that may be a length, count or offset by an extreme one."""
    out = bytearray(data)
    size = dice.choice((1, 2, 4, 8))
    at = dice.randrange(len(out) - size)
    value = dice.choice((*EDGES, len(data), dice.getrandbits(8 * size))) & ((1 << 8 * size) - 1)
    out[at : at + size] = value.to_bytes(size, "little")
    return bytes(out)


def splice(dice: random.Random, data: bytes) -> bytes:
    """A piece of another file in place of a piece of this one."""
    other = dice.choice(list(SEEDS.values()))
    at, start = dice.randrange(len(data)), dice.randrange(len(other))
    piece = other[start : start + dice.randrange(1, 400)]
    return with_true_length(data[:at] + piece + data[at + dice.randrange(400) :])


def repeat(dice: random.Random, data: bytes) -> bytes:
    """A piece of the file many times over."""
    at = dice.randrange(len(data))
    piece = data[at : at + dice.randrange(1, 40)]
    return with_true_length(data[:at] + piece * dice.choice((2, 50, 500)) + data[at:])


MUTATIONS = (flip, truncate, edit_a_length, splice, repeat)


def test_ten_thousand_damaged_files_are_each_read_or_refused_with_a_sentence():
    dice = random.Random(20_240_611)
    names = list(SEEDS)
    began = time.monotonic()
    refused = 0
    slowest = 0.0
    for _ in range(FILES):
        data = SEEDS[dice.choice(names)]
        for _ in range(dice.choice((1, 1, 2, 3))):
            # mutations need something to work on
            data = dice.choice(MUTATIONS)(dice, data.ljust(32, b"\0"))
        at = time.monotonic()
        refused += is_refused(data)
        slowest = max(slowest, time.monotonic() - at)
    took = time.monotonic() - began
    assert took < LONGEST_S
    assert slowest < SLOWEST_FILE_S
    # else the damage was never met, or all files died at the header
    assert 0.3 * FILES < refused < 0.95 * FILES


@pytest.mark.parametrize("name", SEEDS)
def test_every_byte_of_a_file_may_be_any_extreme(name):
    data = SEEDS[name]
    ends = min(len(data), 1200)
    for at in range(ends):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            is_refused(data[:at] + bytes([value]) + data[at + 1 :])


@pytest.mark.parametrize("name", SEEDS)
def test_a_file_cut_anywhere_is_refused_even_with_its_length_made_right(name):
    data = SEEDS[name]
    for at in range(0, len(data), max(1, len(data) // 400)):
        assert is_refused(with_true_length(data[:at]))


def test_reading_damaged_files_takes_little_memory():
    dice = random.Random(7)
    tracemalloc.start()
    try:
        for data in SEEDS.values():
            for _ in range(60):
                is_refused(edit_a_length(dice, edit_a_length(dice, data)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY_BYTES


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(SEEDS)), st.data())
def test_any_edits_of_a_file_are_read_or_refused(name, data):
    content = bytearray(SEEDS[name])
    edits = data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 9), st.binary(min_size=1, max_size=8)), max_size=6)
    )
    for at, value in edits:
        content[at : at + len(value)] = value
    is_refused(bytes(content))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600))
def test_any_definition_is_read_or_refused(definition):
    described = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    is_refused(builder.Om([[(0, definition), (8, described)]]).write())
    is_refused(builder.Om([[(0, definition)]]).write())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600))
def test_any_description_is_read_or_refused(described):
    is_refused(builder.Om([[(0, builder.definition()), (8, described)]]).write())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_are_identified(data):
    assert om.identify(data) in ("om", "emulated_om", "onnx", "zip", "pickle", "pointer", "text", "empty", "unknown")
    is_refused(data)
