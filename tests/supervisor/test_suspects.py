from __future__ import annotations

import pytest

from tests.repository.tiny import make_model, make_voice
from voxrepo.repository.check import Inventory, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.loader import EngineEnded
from voxrepo.supervisor.suspects import Suspects


@pytest.fixture
def inventory(layout: Layout) -> Inventory:
    make_voice(layout, "tiny")
    make_model(layout, "a", 'backend: "ascend_om"')
    make_model(layout, "b", 'backend: "ascend_om"')
    return take_inventory(layout)


def test_all_that_were_loading_are_suspects_first(inventory: Inventory):
    suspects = Suspects()
    suspects.blame(EngineEnded(["a", "b"]), inventory)
    assert suspects.names == {"a", "b"}
    assert set(inventory.models) == {"a", "b"}


def test_one_end_may_be_chance_two_alone_convict(inventory: Inventory):
    suspects = Suspects()
    suspects.blame(EngineEnded(["a", "b"]), inventory)
    suspects.blame(EngineEnded(["b"]), inventory)
    assert set(inventory.models) == {"a", "b"}
    suspects.blame(EngineEnded(["b"]), inventory)
    assert set(inventory.models) == {"a"}
    (problem,) = inventory.problems
    assert (problem.model, problem.kind) == ("b", "model")
    assert "the engine ended 2 times while it loaded this" in problem.reason


def test_the_only_model_is_tried_three_times(inventory: Inventory):
    suspects = Suspects()
    for _ in range(2):
        suspects.blame(EngineEnded(["tiny"]), inventory)
        assert "tiny" in inventory.voices
    suspects.blame(EngineEnded(["tiny"]), inventory)
    assert "tiny" not in inventory.voices
    assert [problem.kind for problem in inventory.problems] == ["voice"]
