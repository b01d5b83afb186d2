from __future__ import annotations

import pytest

from benchmarks.packing import COSTS, GRAPHS, TRITON_ALONE, measure, read_utterances, weighted


@pytest.mark.parametrize("cost", COSTS)
def test_packing_with_proposed_gears_pads_little_of_a_recorded_mix(cost: str):
    """The promise of the packing: 1.15 of the real work at most, where a batcher alone pads to twice and more."""
    utterances = read_utterances()
    assert len(utterances) == 1000
    found = measure(utterances, 32, COSTS[cost])
    ratio = {
        way: weighted({graph: work.padded / real for graph, (real, work) in by_graph.items()})
        for way, by_graph in found.items()
    }
    assert ratio["packed, proposed gears"] <= 1.15
    assert ratio["packed"] < ratio[TRITON_ALONE] / 2
    for graph in GRAPHS:
        assert found["packed"][graph][1].seconds < found[TRITON_ALONE][graph][1].seconds
