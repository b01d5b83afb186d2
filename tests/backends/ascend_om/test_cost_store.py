from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path

import pytest
from om_backend.cost_store import CostStore, Seconds
from om_backend.runtime import RuntimeSettings

from voxrepo_contract import environment

SHA256 = "a" * 64


def never() -> Seconds:
    raise AssertionError("measured again")


def measure_slowly(folder: Path, number: int, answers: multiprocessing.Queue[Seconds]) -> None:
    def measure() -> Seconds:
        time.sleep(0.3)
        return {"1": float(number + 1)}

    answers.put(CostStore(folder).recall(SHA256, measure))


def test_costs_outlive_the_process_that_measured_them(tmp_path: Path):
    assert CostStore(tmp_path, "2 threads").recall(SHA256, lambda: {"1": 0.5}) == {"1": 0.5}
    assert CostStore(tmp_path, "2 threads").recall(SHA256, never) == {"1": 0.5}


def test_another_graph_or_setting_is_measured_for_itself(tmp_path: Path):
    CostStore(tmp_path, "2 threads").recall(SHA256, lambda: {"1": 0.5})
    assert CostStore(tmp_path, "1 threads").recall(SHA256, lambda: {"1": 0.7}) == {"1": 0.7}
    assert CostStore(tmp_path, "2 threads").recall("b" * 64, lambda: {"1": 0.9}) == {"1": 0.9}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"1": "fast"}), json.dumps({"1": -1.0})])
def test_a_damaged_file_is_measured_again(tmp_path: Path, text: str):
    store = CostStore(tmp_path)
    store.recall(SHA256, lambda: {"1": 0.5})
    (file,) = tmp_path.glob("*.json")
    file.write_text(text)
    assert store.recall(SHA256, lambda: {"1": 0.6}) == {"1": 0.6}
    assert store.recall(SHA256, never) == {"1": 0.6}


def test_processes_that_start_together_use_one_measurement(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[Seconds] = context.Queue()
    processes = [context.Process(target=measure_slowly, args=(tmp_path, number, answers)) for number in range(4)]
    for process in processes:
        process.start()
    results = [answers.get(timeout=20) for _ in processes]
    for process in processes:
        process.join(20)
    assert len({result["1"] for result in results}) == 1


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(environment.COSTS_DIR, raising=False)
    store = CostStore.of_environment(RuntimeSettings())
    assert store.recall(SHA256, lambda: {"1": 0.5}) == {"1": 0.5}
    assert store.recall(SHA256, lambda: {"1": 0.6}) == {"1": 0.6}


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        CostStore(tmp_path / "file" / "costs").recall(SHA256, lambda: {"1": 0.5})
