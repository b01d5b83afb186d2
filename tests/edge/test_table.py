from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from voxrepo.edge.table import EdgeTable, TableWatcher, read_table, write_table
from voxrepo_contract.errors import ConfigError

from .harness import sample_table, voice


def test_a_table_survives_the_file(tmp_path: Path) -> None:
    write_table(tmp_path / "t", sample_table())
    assert read_table(tmp_path / "t") == sample_table()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"generation": -1}', "generation"),
        ('{"generation": 1, "voice": {}}', "voice"),
        (json.dumps({"generation": 1, "voices": {"b": voice("a").model_dump()}}), "'a'"),
        (
            json.dumps({"generation": 1, "voices": {"a": {**voice("a").model_dump(), "speed_min": 9.0}}}),
            "speed_min 9.0 exceeds",
        ),
        (
            json.dumps({"generation": 1, "voices": {"a": {**voice("a").model_dump(), "max_text_chars": "9"}}}),
            "max_text",
        ),
    ],
)
def test_refuses_a_bad_table_and_names_file_and_key(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_table(file)
    assert str(file) in str(caught.value)
    assert told in str(caught.value)


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        TableWatcher(tmp_path / "none.json")


def test_follows_replacements_even_with_an_old_time(tmp_path: Path) -> None:
    file = tmp_path / "t"
    write_table(file, EdgeTable(generation=1))
    watcher = TableWatcher(file)
    stamp = file.stat().st_mtime_ns
    write_table(file, EdgeTable(generation=2))
    os.utime(file, ns=(stamp, stamp))
    assert watcher.refresh()
    assert watcher.table.generation == 2
    assert not watcher.refresh()


def test_keeps_the_old_table_when_the_new_one_is_bad_and_takes_the_next_good_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "t"
    write_table(file, EdgeTable(generation=1))
    watcher = TableWatcher(file)
    file.write_text("broken", encoding="utf-8")
    assert not watcher.refresh()
    assert not watcher.refresh()
    assert watcher.table.generation == 1
    assert len([r for r in caplog.records if "generation 1 stays" in r.getMessage()]) == 1
    file.unlink()
    assert not watcher.refresh()
    write_table(file, EdgeTable(generation=3))
    assert watcher.refresh()
    assert watcher.table.generation == 3


async def test_looks_at_the_file_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "t"
    write_table(file, EdgeTable(generation=1))
    watcher = TableWatcher(file, interval_s=0.01)
    task = asyncio.create_task(watcher.follow())
    write_table(file, EdgeTable(generation=2))
    for _ in range(200):
        await asyncio.sleep(0.01)
        if watcher.table.generation == 2:
            break
    task.cancel()
    assert watcher.table.generation == 2


def test_the_models_of_a_voice_use_its_pool_also_while_it_has_no_row() -> None:
    rows = {"a": voice("a"), "a.new": voice("a.new", voice="a", arm="new"), "a.b": voice("a.b")}
    table = EdgeTable(generation=1, voices=rows, engine_pools={"a": 3})
    names = ("a", "a.new", "a.vocoder", "a.stable", "a.b", "a.b.vocoder", "other", "other.vocoder")
    assert [name for name in names if table.pool_of(name)] == ["a", "a.new", "a.vocoder", "a.stable"]
    table = EdgeTable(generation=2, ready=False, engine_pools={"a": 3})
    assert [table.pool_of(name) for name in ("a", "a.vocoder", "b")] == ["a", "a", None]
