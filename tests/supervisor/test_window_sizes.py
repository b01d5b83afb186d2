from __future__ import annotations

from typing import Any

import pytest

from voxrepo.edge.pieces_plan import WindowSizes
from voxrepo.supervisor.loader import window_sizes
from voxrepo_contract.stage import WindowedStage


def vocoder(frames: str | int, gears: list[dict[str, int]], **options: Any) -> WindowedStage:
    graph = {
        "file": "generator.om",
        "sha256": "0" * 64,
        "device": "npu" if gears else "cpu",
        "inputs": [
            {"name": "mask", "dtype": "FP32", "dims": ["batch", 1, frames]},
            {"name": "features", "dtype": "FP32", "dims": ["batch", 80, frames]},
        ],
        "outputs": [{"name": "audio", "dtype": "FP32", "dims": ["batch", 1, "samples"]}],
        "gears": gears,
    }
    return WindowedStage.model_validate(
        {
            "stage": "vocoder",
            "program": "windowed",
            "graphs": {"generator": graph},
            "options": {"window_frames": 128, "overlap_frames": 10, **options},
        }
    )


@pytest.mark.parametrize(
    ("stage", "sizes"),
    [
        (vocoder("frames", []), WindowSizes(128, 10, 128)),
        (vocoder("frames", [], first_window_frames=40), WindowSizes(128, 10, 40)),
        (vocoder("t", [{"batch": 1, "t": 64}, {"batch": 4, "t": 256}]), WindowSizes(256, 10, 256)),
        (vocoder("t", [{"t": 64}, {"t": 256}], first_window_frames=40), WindowSizes(256, 10, 256)),
        (vocoder(96, [{"batch": 1}]), WindowSizes(96, 10, 96)),
    ],
)
def test_the_edge_is_told_the_longest_window_and_a_short_first_one(stage: WindowedStage, sizes: WindowSizes) -> None:
    assert window_sizes(stage) == sizes
