"""The load generator: its arithmetic, and a run against a server on real sockets."""

from __future__ import annotations

import json

import pytest
from voxrepo_client import InvalidRequest
from voxrepo_client.load import SENTENCES, LoadReport, Record, main, run

from tests.clients.protocol_server import Failure, pieces, spoken


def test_rates_count_the_successful_requests_of_the_window():
    records = (
        Record(0, -2.0, 2.0, 8.0),
        Record(0, 2.0, 6.0, 8.0),
        Record(0, 6.0, 10.0, 4.0),
        Record(1, 0.0, 10.0, 0.0, "ServerBusy"),
    )
    report = LoadReport(2, 10.0, records)
    assert report.audio_s_per_s == pytest.approx(2.0)
    assert report.requests_per_s == pytest.approx(0.3)
    assert report.errors == {"ServerBusy": 1}


def test_percentiles_are_nearest_rank_of_successes():
    succeeded = [Record(0, 0.0, float(i), 1.0) for i in range(1, 11)]
    records = (*succeeded, Record(0, 0.0, 99.0, 0.0, "TimedOut"))
    report = LoadReport(1, 100.0, records)
    assert [report.latency_s(p) for p in (0, 50, 90, 99, 100)] == [1, 5, 9, 10, 10]


def test_a_load_without_success_reports_none():
    summary = LoadReport(1, 1.0, (Record(0, 0.0, 0.1, 0.0, "ConnectionFailed"),)).summary()
    assert summary["latency_ms"]["p50"] is None
    assert summary["audio_s_per_s"] == 0
    assert json.loads(json.dumps(summary)) == summary


def test_runs_as_many_clients_as_asked(url, peer):
    peer.delay_s = 0.05
    report = run("en-joe", SENTENCES, url=url, clients=4, duration_s=1.0, warmup_s=0.1)
    assert report.errors == {}
    assert {record.client for record in report.records} == {0, 1, 2, 3}
    assert {request.inputs["text"].decode() for request in peer.received} == set(SENTENCES)
    # closed loop: each client waits at least 50 ms per answer
    assert report.requests_per_s <= 4 / 0.05
    assert report.requests_per_s > 0.4 * 4 / 0.05
    assert report.latency_s(50) >= 0.05
    busiest = max(sum(o.start_s <= r.start_s < o.end_s for o in report.records) for r in report.records)
    assert busiest == 4


def test_counts_errors_instead_of_raising(peer):
    peer.fail = Failure("UNAVAILABLE", 503, "queue full")
    report = run("en-joe", ["a"], url=peer.grpc_url, duration_s=0.2, warmup_s=0)
    assert report.errors["ServerBusy"] == len(report.records) > 0


@pytest.mark.parametrize("options", [{"clients": 0}, {"duration_s": 0}, {"warmup_s": -1}, {"duration_s": float("nan")}])
def test_refuses_a_load_that_is_none(options):
    with pytest.raises(InvalidRequest):
        run("en-joe", ["a"], **options)


def test_prints_json(peer, tmp_path, capsys):
    (tmp_path / "texts").write_text("One.\n\n  Two.\n", "utf-8")
    arguments = ["--voice", "en-joe", "--url", peer.http_url, "--duration-s", "0.2", "--warmup-s", "0"]
    assert main([*arguments, "--texts", str(tmp_path / "texts"), "--clients", "2"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["clients"] == 2
    assert summary["requests"] > 0
    assert {request.inputs["text"] for request in peer.received} == {b"One.", b"Two."}
    assert main([*arguments, "--texts", str(tmp_path / "missing")]) == 2
    assert main([*arguments, "--stream"]) == 0
    assert json.loads(capsys.readouterr().out)["stream"]["underruns"] == 0
    peer.fail = Failure("INTERNAL", 500, "no")
    assert main(arguments) == 1


def test_streams_and_times_their_pieces(url, peer):
    peer.piece_delay_s = 0.02
    report = run("en-joe", SENTENCES, url=url, clients=2, duration_s=1.0, warmup_s=0.1, stream=True)
    assert report.errors == {}
    assert {request.model for request in peer.received} == {"en-joe.stream"}
    told = report.summary()["stream"]
    assert told["streams"] == len(report.records) > 5
    assert 3 * told["streams"] <= told["pieces"] <= told["streams"] * max(len(pieces(spoken(s))) for s in SENTENCES)
    assert told["gap_ms"]["p50"] >= 15
    assert told["first_piece_ms"]["p50"] < 15
    assert told["underruns"] == 0


def test_a_stream_that_fails_midway_is_an_error(peer):
    peer.fail, peer.fail_after = Failure("INTERNAL", 500, "broken"), 1
    report = run("en-joe", ["a text of two pieces"], url=peer.grpc_url, duration_s=0.2, warmup_s=0, stream=True)
    assert report.errors["ServerError"] == len(report.records) > 0
    assert "stream" not in report.summary()
