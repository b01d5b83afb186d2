"""What a listener notices of a stream, and events cut from bytes: the pure parts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voxrepo_client import BadResponse, StreamTiming
from voxrepo_client import events as events_module
from voxrepo_client.events import EventReader, answer_of, parse_event
from voxrepo_client.timing import percentile, summarise


def test_a_stream_that_keeps_ahead_has_no_underrun():
    timing = StreamTiming((0.1, 0.2, 0.5), (0.3, 0.3, 1.0))
    assert timing.first_piece_s == 0.1
    assert timing.gaps_s == pytest.approx((0.1, 0.3))
    assert timing.audio_s == pytest.approx(1.6)
    assert timing.real_time_factor == pytest.approx(0.5 / 1.6)
    assert timing.worst_lag_s == pytest.approx(-0.2)
    assert timing.underruns == 0


def test_a_late_piece_is_an_underrun_and_shifts_what_follows():
    timing = StreamTiming((0.0, 1.5, 2.4, 5.0), (1.0, 1.0, 1.0, 1.0))
    # played 0 to 1, silence to 1.5, played to 2.5, to 3.5, silence to 5.0
    assert timing.stalls_s == pytest.approx((0.5, 1.5))
    assert timing.underruns == 2
    assert timing.worst_lag_s == pytest.approx(2.0)


def test_nothing_is_told_of_no_pieces():
    timing = StreamTiming((), ())
    assert all(math.isnan(value) for value in (timing.first_piece_s, timing.real_time_factor, timing.worst_lag_s))
    summary = summarise([timing])
    assert json.loads(json.dumps(summary)) == summary
    assert summary["first_piece_ms"]["p50"] is None
    assert summarise([])["streams"] == 0


def test_the_summary_counts_over_all_streams():
    good, late = StreamTiming((0.1, 0.2), (1.0, 1.0)), StreamTiming((0.3, 2.0), (1.0, 1.0))
    summary = summarise([good, late])
    assert summary["first_piece_ms"] == {"p50": 100.0, "p95": 300.0, "p99": 300.0, "max": 300.0}
    assert summary["gap_ms"]["max"] == 1700.0
    assert (summary["underruns"], summary["streams_with_underruns"]) == (1, 1)
    assert summary["stalled_ms"] == pytest.approx(700.0)
    assert summary["worst_lag_ms"] == pytest.approx(700.0)
    assert summary["real_time_factor"] == {"p50": 0.1, "p95": 1.0, "p99": 1.0, "max": 1.0}


def test_percentiles_are_nearest_rank():
    assert [percentile(range(1, 11), p) for p in (0, 50, 90, 99, 100)] == [1, 5, 9, 10, 10]
    assert math.isnan(percentile([], 50))


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), max_size=5),
    st.lists(st.integers(1, 40), max_size=20),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_events_are_found_however_the_bytes_are_cut(documents, sizes, newline):
    stream = b": a comment" + newline + newline
    stream += b"".join(b"data: " + json.dumps(d).encode() + newline + newline for d in documents)
    reader, found = EventReader(), []
    for size in [*sizes, len(stream)]:
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert [parse_event(data) for data in found] == documents
    assert reader.is_between_events


def test_a_cut_event_is_noticed():
    reader = EventReader()
    assert reader.feed(b'data: {"a": 1}\n\ndata: {"a"') == [b'{"a": 1}']
    assert not reader.is_between_events
    assert reader.feed(b": 2}\n") == []
    assert not reader.is_between_events
    assert reader.feed(b"\n") == [b'{"a": 2}']
    assert reader.is_between_events


def test_an_event_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(events_module, "MAX_EVENT_BYTES", 1000)
    with pytest.raises(BadResponse, match="1000 bytes"):
        EventReader().feed(b"data: " + b"1" * 1000)


def test_reads_the_outputs_of_an_event():
    answer = answer_of({"audio": [1, -32768, 32767], "sample_rate": 22050, "seed": 3, "versions": "{}"})
    assert answer.outputs["audio"].dtype == np.int16
    assert answer.outputs["audio"].tolist() == [[1, -32768, 32767]]
    assert answer.outputs["sample_rate"].tolist() == [[22050]]
    assert answer.parameters == {"seed": 3, "versions": "{}"}
    assert answer_of({"audio": 5, "sample_rate": 1}).outputs["audio"].tolist() == [[5]]
    assert answer_of({"audio": []}).outputs["audio"].shape == (1, 0)


@pytest.mark.parametrize("audio", [[32768], [-32769], [0.5], ["1"], [True], [[1]], [[1], 2], None, [2**70]])
def test_refuses_audio_that_is_none(audio):
    with pytest.raises(BadResponse, match="audio"):
        answer_of({"audio": audio})
