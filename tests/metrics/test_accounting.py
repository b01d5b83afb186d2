from __future__ import annotations

import asyncio
import json
import logging

import pytest

from voxrepo.metrics.accounting import Accountant
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
