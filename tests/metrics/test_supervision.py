from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from voxrepo.metrics.supervision import read_supervision, supervision_text, write_supervision


def test_the_numbers_are_valid_series() -> None:
    text = supervision_text(engine_restarts=2, engine_recycles=1, stub_restarts=5, memory_bytes=2**30)
    samples = {
        (sample.name, sample.labels.get("reason")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples == {
        ("voxrepo_engine_restarts_total", "ended"): 2,
        ("voxrepo_engine_restarts_total", "memory"): 1,
        ("voxrepo_stub_restarts_total", None): 5,
        ("voxrepo_engine_memory_bytes", None): 2**30,
    }


def test_the_page_shows_what_was_written_and_nothing_before(tmp_path: Path) -> None:
    file = tmp_path / "supervisor.prom"
    assert read_supervision(file) == b""
    write_supervision(file, "voxrepo_x 1\n")
    assert read_supervision(file) == b"voxrepo_x 1\n"
