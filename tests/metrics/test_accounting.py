from __future__ import annotations

import asyncio
import json
import logging

import pytest

from voxrepo.metrics.accounting import MAX_ARMS, OTHER_ARMS, Accountant, RequestRecord
from voxrepo.metrics.registry import EdgeMetrics
from voxrepo_contract.errors import DeadlineExceeded, Internal, InvalidArgument, Unavailable, VoxrepoError


@pytest.fixture
def metrics() -> EdgeMetrics:
    return EdgeMetrics()


@pytest.fixture
def accountant(metrics: EdgeMetrics) -> Accountant:
    return Accountant(metrics, lambda name: name == "en-joe")


def counted(metrics: EdgeMetrics) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[label] for label in ("model", "protocol", "outcome", "code")): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "voxrepo_requests_total"
    }


def test_counts_a_success_with_its_audio(metrics: EdgeMetrics, accountant: Accountant) -> None:
    with accountant.request("en-joe", "grpc") as record:
        assert metrics.registry.get_sample_value("voxrepo_in_flight") == 1
        record.audio_s, record.text_chars, record.dropped = 1.5, 20, {"emoji": 2}
    assert counted(metrics) == {("en-joe", "grpc", "ok", "OK"): 1}
    assert metrics.registry.get_sample_value("voxrepo_in_flight") == 0
    assert metrics.registry.get_sample_value("voxrepo_audio_seconds_total", {"model": "en-joe"}) == 1.5
    assert metrics.registry.get_sample_value("voxrepo_text_chars_total", {"model": "en-joe"}) == 20
    labels = {"model": "en-joe", "reason": "emoji"}
    assert metrics.registry.get_sample_value("voxrepo_dropped_characters_total", labels) == 2


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (InvalidArgument("x"), "invalid", "INVALID_ARGUMENT"),
        (Unavailable("x"), "rejected", "UNAVAILABLE"),
        (DeadlineExceeded("x"), "timed_out", "DEADLINE_EXCEEDED"),
        (Internal("x"), "failed", "INTERNAL"),
    ],
)
def test_counts_each_error_once(
    metrics: EdgeMetrics, accountant: Accountant, error: VoxrepoError, outcome: str, code: str
) -> None:
    with pytest.raises(type(error)), accountant.request("en-joe", "http"):
        raise error
    assert counted(metrics) == {("en-joe", "http", outcome, code): 1}


def test_names_from_clients_do_not_make_series(metrics: EdgeMetrics, accountant: Accountant) -> None:
    for name in ("a", "b", "c"):
        with accountant.request(name, "http"):
            pass
    assert counted(metrics) == {("unknown", "http", "ok", "OK"): 3}


def test_unexpected_errors_are_masked_and_logged(
    metrics: EdgeMetrics, accountant: Accountant, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Internal) as caught, accountant.request("en-joe", "http") as record:
        raise KeyError("secret")
    assert "secret" not in str(caught.value)
    assert record.id in str(caught.value)
    assert any(record.id in entry.getMessage() and entry.exc_info for entry in caplog.records)
    assert counted(metrics) == {("en-joe", "http", "failed", "INTERNAL"): 1}


@pytest.mark.parametrize(("limit_s", "outcome"), [(None, "cancelled"), (60.0, "cancelled"), (-1.0, "timed_out")])
def test_a_cancel_after_the_deadline_is_a_timeout(
    metrics: EdgeMetrics, accountant: Accountant, limit_s: float | None, outcome: str
) -> None:
    with pytest.raises(asyncio.CancelledError), accountant.request("en-joe", "grpc") as record:
        record.limit(limit_s)
        raise asyncio.CancelledError
    assert [labels[2] for labels in counted(metrics)] == [outcome]


def test_the_earlier_limit_holds(accountant: Accountant) -> None:
    with accountant.request("en-joe", "grpc") as record:
        record.limit(None)
        assert record.remaining_s() is None
        record.limit(0.25)
        record.limit(5)
        assert str(record.deadline_error()) == "timed out after 250 ms"


def sample(metrics: EdgeMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"model": "en-joe", **labels})


def test_a_stream_is_counted_by_its_pieces_and_the_stalls_of_a_player(
    metrics: EdgeMetrics,
    accountant: Accountant,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 100.0
    monkeypatch.setattr("voxrepo.metrics.accounting.time.monotonic", lambda: now_s)
    with caplog.at_level(logging.INFO), accountant.request("en-joe", "grpc_stream") as record:
        record.started_s = now_s
        assert record.played_until_s is None
        for after_s, audio_s in ((0.1, 0.5), (0.3, 1.0), (1.5, 1.0), (0.2, 0.5)):
            now_s += after_s
            record.piece(audio_s)
        # played from 100.1 to 101.6; the third piece came at 101.9, 0.3 s late
        assert record.played_until_s == pytest.approx(101.9 + 1.5)
    assert (record.pieces, record.underruns, record.audio_s) == (4, 1, 3.0)
    assert record.gaps_s == pytest.approx([0.3, 1.5, 0.2])
    assert sample(metrics, "voxrepo_pieces_total") == 4
    assert sample(metrics, "voxrepo_underruns_total") == 1
    assert sample(metrics, "voxrepo_first_piece_seconds_sum", arm="") == pytest.approx(0.1)
    assert sample(metrics, "voxrepo_piece_gap_seconds_count") == 3
    assert sample(metrics, "voxrepo_audio_seconds_total") == 3.0
    assert sample(metrics, "voxrepo_real_time_factor_ratio_sum", arm="") == pytest.approx(2.1 / 3.0)
    (entry,) = [r.getMessage() for r in caplog.records if r.name == "voxrepo.requests"]
    line = json.loads(entry)
    assert (line["first_piece_ms"], line["pieces"], line["underruns"], line["audio_ms"]) == (100.0, 4, 1, 3000)


def test_what_was_sent_of_a_stream_that_failed_is_counted_and_its_fault_masked(
    metrics: EdgeMetrics, accountant: Accountant
) -> None:
    with pytest.raises(Internal) as caught, accountant.request("en-joe", "grpc_stream") as record:
        record.piece(0.5)
        raise RuntimeError("secret")
    assert "secret" not in str(caught.value)
    assert sample(metrics, "voxrepo_audio_seconds_total") == 0.5
    assert sample(metrics, "voxrepo_real_time_factor_ratio_count", arm="") is None
    assert counted(metrics) == {("en-joe", "grpc_stream", "failed", "INTERNAL"): 1}


def test_arms_have_series_of_their_own_as_far_as_they_are_few(metrics: EdgeMetrics, accountant: Accountant) -> None:
    for number in range(MAX_ARMS + 3):
        with accountant.request("en-joe", "grpc") as record:
            record.arm = f"arm{number}"
    assert sample(metrics, "voxrepo_request_duration_seconds_count", arm="arm0") == 1
    assert sample(metrics, "voxrepo_request_duration_seconds_count", arm=OTHER_ARMS) == 3


def test_the_end_of_a_request_is_told_once_and_its_faults_hurt_nobody(
    metrics: EdgeMetrics, accountant: Accountant, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, float]] = []

    def ended(record: RequestRecord, seconds: float) -> None:
        told.append((record.outcome, seconds))
        raise ValueError("no room")

    with accountant.request("en-joe", "grpc") as record:
        record.ended = ended
    with pytest.raises(Unavailable), accountant.request("en-joe", "grpc") as record:
        record.ended = ended
        raise Unavailable("x")
    assert [outcome for outcome, _ in told] == ["ok", "rejected"]
    assert "not observed" in caplog.text


def test_what_rollouts_do_is_shown_and_arms_of_before_are_zero(metrics: EdgeMetrics) -> None:
    def shown(name: str, arm: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"voice": "en-joe", "arm": arm})

    metrics.show_arms({("en-joe", "a"): 10.0, ("en-joe", "stable"): 90.0}, {("en-joe", "a"), ("en-joe", "stable")})
    assert (shown("voxrepo_rollout_weight", "a"), shown("voxrepo_rollout_weight", "stable")) == (10.0, 90.0)
    assert shown("voxrepo_arm_ready", "a") == 1
    metrics.show_arms({}, set())
    assert (shown("voxrepo_rollout_weight", "a"), shown("voxrepo_arm_ready", "a")) == (0.0, 0.0)


def test_refusals_are_counted_by_their_reason(metrics: EdgeMetrics, accountant: Accountant) -> None:
    for error in (Unavailable("x", reason="real_time"), Unavailable("x", reason="queue"), Unavailable("x")):
        with pytest.raises(Unavailable), accountant.request("en-joe", "http"):
            raise error
    with pytest.raises(DeadlineExceeded), accountant.request("en-joe", "http"):
        raise DeadlineExceeded("x")
    for reason in ("real_time", "queue", "unavailable"):
        assert sample(metrics, "voxrepo_rejected_total", reason=reason) == 1
    assert len([s for f in metrics.registry.collect() for s in f.samples if s.name == "voxrepo_rejected_total"]) == 3


def test_versions_do_not_make_series_without_bound(
    metrics: EdgeMetrics, accountant: Accountant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxrepo.metrics.accounting.MAX_VERSION_SETS", 3)
    for version in range(1, 7):
        with accountant.request("en-joe", "http") as record:
            record.arm, record.versions = "stable", {"acoustic": version, "vocoder": 1}
    seen = {
        sample.labels["versions"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "voxrepo_requests_total"
    }
    assert seen == {**{f"acoustic={version},vocoder=1": 1 for version in (1, 2, 3)}, "other": 3}


@pytest.mark.parametrize("log_text", [False, True])
def test_one_line_per_request_and_the_text_only_on_demand(
    metrics: EdgeMetrics, caplog: pytest.LogCaptureFixture, log_text: bool
) -> None:
    accountant = Accountant(metrics, lambda name: True, log_text)
    with caplog.at_level(logging.INFO), accountant.request("en-joe", "grpc") as record:
        record.text, record.text_chars, record.audio_s = "private", 7, 0.5
        record.client_id = "a\nb"
    (entry,) = [r.getMessage() for r in caplog.records if r.name == "voxrepo.requests"]
    line = json.loads(entry)
    assert "\n" not in entry
    assert (line["id"], line["chars"], line["audio_ms"], line["outcome"]) == (record.id, 7, 500, "ok")
    assert line.get("text") == ("private" if log_text else None)
