from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.convert.gear_choice import LIMITS, choose_gears, longest_frames, parse_gears
from voxrepo.convert.gears import MAX_GEARS, Gear
from voxrepo.convert.records import SHIPPED_RECORD, LengthRecord, read_record
from voxrepo.convert.refusal import AtcRefusal
from voxrepo_contract.errors import ConfigError, InvalidArgument

RECORD = read_record()


def test_gears_are_read():
    assert parse_gears("auto").sizes == {}
    assert parse_gears(" batch = 4, 1 ; frames=64 ").sizes == {"batch": (1, 4), "frames": (64,)}


@pytest.mark.parametrize(
    "text", ["", "batch", "batch=", "width=3", "batch=1;batch=2", "batch=1,,2", "ids=0", "ids=-1", "ids=a"]
)
def test_gears_in_another_syntax_are_refused(text):
    with pytest.raises(InvalidArgument, match="--gears"):
        parse_gears(text)


def test_named_sizes_are_taken_as_they_are():
    request = parse_gears("batch=1,4;ids=30,60;frames=50")
    assert choose_gears("encoder", request, RECORD, longest=400) == [Gear(1, 30), Gear(1, 60), Gear(4, 30), Gear(4, 60)]
    assert choose_gears("decoder", request, RECORD, longest=400) == [Gear(1, 50), Gear(4, 50)]


def test_what_is_not_named_is_proposed():
    gears = choose_gears("encoder", parse_gears("batch=1,2"), RECORD, longest=400)
    assert {gear.batch for gear in gears} == {1, 2}
    assert max(gear.length for gear in gears) == 400


@pytest.mark.parametrize(("graph", "longest"), [("encoder", 400), ("decoder", 4096), ("generator", 0)])
def test_proposals_stay_within_the_limits_of_the_graph(graph, longest):
    gears = choose_gears(graph, parse_gears("auto"), RECORD, longest=longest, overlap_frames=11)
    assert 2 <= len(gears) <= MAX_GEARS
    assert all(gear.batch == 1 or gear.batch * gear.length <= LIMITS[graph] for gear in gears)
    assert not longest or max(gear.length for gear in gears) == longest


def test_a_record_longer_than_what_is_possible_is_cut():
    gears = choose_gears("encoder", parse_gears("auto"), RECORD, longest=40)
    assert max(gear.length for gear in gears) == 40


def test_too_many_gears_are_refused():
    with pytest.raises(AtcRefusal, match="E10036: --gears makes 101 gears"):
        choose_gears("encoder", parse_gears(f"batch=1;ids={','.join(map(str, range(1, 102)))}"), RECORD, longest=400)


def test_windows_that_are_all_overlap_are_refused():
    with pytest.raises(InvalidArgument, match="give one of more than 22 frames"):
        choose_gears("generator", parse_gears("frames=22"), RECORD, longest=0, overlap_frames=11)


def test_the_slowest_longest_segment_has_a_gear():
    record = LengthRecord((100, 100), (200, 220))
    assert longest_frames(record, 400) == 4096
    assert longest_frames(record, 400) >= 400 * 2.1 * 4


def test_the_shipped_record_is_of_real_segments():
    assert len(RECORD.ids) == len(RECORD.frames) >= 500
    assert min(RECORD.ids) >= 5 and max(RECORD.ids) <= 400
    assert SHIPPED_RECORD.read_text(encoding="utf-8").startswith("# ids and frames")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs the heading"),
        ("ids,frames\n", "needs the heading"),
        ("frames,ids\n1,2\n", "needs the heading"),
        ("# note\nids,frames\n1,2\n3\n", ":4: needs two positive numbers"),
        ("ids,frames\n1,x\n", ":2: "),
        ("ids,frames\n0,5\n", ":2: "),
    ],
)
def test_a_wrong_record_is_refused_with_its_line(tmp_path: Path, text, words):
    file = tmp_path / "record.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        read_record(file)


def test_a_missing_record_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_record(tmp_path / "none.csv")


@pytest.mark.timeout(20)
def test_a_record_without_an_end_is_not_read():
    with pytest.raises(ConfigError, match="is no regular file"):
        read_record(Path("/dev/zero"))
