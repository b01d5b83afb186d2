"""What the server says of itself, and the table that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.tiny import make_model, make_voice
from voxrepo.edge.table import EdgeTable, read_table
from voxrepo.repository.check import Inventory, Problem, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.loader import initial_statuses
from voxrepo.supervisor.state import ServerState, StateFolder


@pytest.fixture
def board(layout: Layout) -> Board:
    for name in ("one", "two"):
        make_voice(layout, name)
    make_model(layout)
    folder = StateFolder(layout)
    folder.acquire()
    board = Board(folder, ServerState(pid=1, started_at=0.0, phase="loading"), lambda state: None)
    board.inventory = take_inventory(layout)
    models = [status.model_copy(update={"state": "ready"}) for status in initial_statuses(board.inventory).values()]
    board.update(models=models)
    board.publish(ready=True)
    return board


def table_of(layout: Layout) -> EdgeTable:
    return read_table(StateFolder(layout).table_file)


def test_what_is_dropped_is_refused_with_the_reason_and_comes_back_as_it_was(board: Board, layout: Layout) -> None:
    other = Problem("one", "voice", "version 7 is broken", 7)
    board.inventory.problems.append(other)
    voice = board.inventory.voices["one"]
    board.drop({"one": "its stubs died"})
    board.publish()
    assert set(table_of(layout).voices) == {"two"}
    assert [(p.model, p.reason) for p in table_of(layout).problems] == [("one", "its stubs died")]
    assert "one" not in board.inventory.voices
    board.take_back(Inventory(voices={"one": voice}))
    board.publish()
    assert set(table_of(layout).voices) == {"one", "two"}
    assert not table_of(layout).problems
    assert board.inventory.problems == [other]
    assert {status.state for status in board.state.models} == {"ready"}


def test_a_table_that_is_published_for_another_reason_is_as_ready_as_the_last(board: Board, layout: Layout) -> None:
    board.edge_workers = [0, 2]
    board.publish()
    assert table_of(layout).ready
    assert table_of(layout).edge_workers == [0, 2]
    board.hold_all()
    board.publish()
    table = table_of(layout)
    assert not table.ready
    assert table.held == ["echo", "one", "two"]
    assert set(table.voices) == {"one", "two"}


def test_requests_are_refused_while_nobody_knows_when_the_engine_is_back(board: Board, layout: Layout) -> None:
    board.hold_all()
    board.refuse_all()
    table = table_of(layout)
    assert (table.held, sorted(table.loading), table.voices) == ([], ["echo", "one", "two"], {})


def test_generations_grow(board: Board, layout: Layout) -> None:
    before = table_of(layout).generation
    board.publish()
    assert table_of(layout).generation == board.table.generation == before + 1


def test_a_state_that_cannot_be_written_is_no_reason_to_end(
    board: Board, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: StateFolder, state: ServerState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StateFolder, "write", full)
    board.update(phase="ready")
    assert board.state.phase == "ready"


def test_numbers_are_written_for_the_metrics_page(board: Board, layout: Layout) -> None:
    board.update(stub_restarts=3)
    board.write_numbers()
    text = Path(StateFolder(layout).supervision_file).read_text(encoding="utf-8")
    assert "voxrepo_stub_restarts_total 3" in text
