"""The edge's table is written, now or later."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.edge.table import EdgeTable, read_table
from voxrepo.supervisor import tablefile
from voxrepo.supervisor.tablefile import TableFile
from voxrepo_contract.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "table.json"


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(file: Path, table: EdgeTable) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tablefile, "write_table", no_room)


def test_a_table_is_on_disk_at_once(file: Path) -> None:
    tables = TableFile(file)
    tables.put(EdgeTable(generation=3))
    assert read_table(file).generation == tables.generation == 3
    assert not tables.is_behind
    assert not tables.catch_up()


def test_the_first_table_must_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(ConfigError, match=r"table\.json: cannot be written: No space left on device"):
        TableFile(file).put(EdgeTable(generation=1))


def test_a_full_disk_delays_later_tables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = TableFile(file)
    tables.put(EdgeTable(generation=1))
    with monkeypatch.context() as patch:
        fill_disk(patch)
        tables.put(EdgeTable(generation=2))
        tables.put(EdgeTable(generation=3))
        assert tables.is_behind
        assert not tables.catch_up()
        assert read_table(file).generation == 1
    assert tables.catch_up()
    assert read_table(file).generation == 3
    assert not tables.is_behind
    assert not tables.catch_up()
