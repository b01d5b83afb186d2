"""Padding: what graphs with gears compute for 1,000 recorded utterances, as a multiple of what was asked of them.

``python -m benchmarks.packing [--requests 32]`` goes through the record in order of arrival, in Triton batches of a
number of requests, and counts for each graph rows x length of all calls (overlaps of windows included) per unit that
is needed (ids, frames):

* Triton alone: segments in order of arrival, padded to the longest of up to 8 and to the smallest gear that holds them;
* packed: the same gears, with the packing of ``ascend_om`` (and its windows for the vocoder);
* packed, proposed gears: as ``voxrepo convert`` proposes them, from the record that ships with it, which was made in
  another way from a part of the same sentences;
* packed, gears from half: as it proposes them from the first half of this record, as a server that keeps one would.

Nothing is run: calls are chosen by the very functions that the backend uses, and their times come from a cost that is
printed with the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "backends" / "ascend_om"))

from om_backend.gears import Gear, GearTable  # noqa: E402
from om_backend.packing import Shape, pack  # noqa: E402
from om_backend.windows import WindowPlanner  # noqa: E402

from voxrepo.convert.call_cost import NPU_VOCODER, Cost, LinearCost  # noqa: E402
from voxrepo.convert.gear_choice import choose_gears, longest_frames, parse_gears  # noqa: E402
from voxrepo.convert.records import LengthRecord, read_record  # noqa: E402

RECORD = REPOSITORY / "benchmarks" / "data" / "utterances-1000.csv"
GRAPHS = ("encoder", "decoder", "generator")
TIME_SHARES = {"encoder": 25.0, "decoder": 30.0, "generator": 160.0}
"""Milliseconds of a sentence of 211 ids in each graph of the default voice on one core: how graphs weigh in the sum."""
OVERLAP_FRAMES = 11
LONGEST_IDS = 400
BATCHES = (1, 2, 4, 8)
PLAIN_LENGTHS = {
    "encoder": (32, 64, 128, 256, 512),
    "decoder": (64, 128, 256, 512, 1024),
    "generator": (64, 128, 256, 512, 1024),
}
"""Powers of two: the gears that one would write down without looking at any text."""
COSTS: dict[str, Cost] = {
    "a call costs as much as 230 frames (HiFi-GAN on a 310P3 as published)": NPU_VOCODER,
    "a call costs as much as 20 frames (a device with little overhead)": LinearCost(20.0, 1.0),
}


@dataclass(frozen=True)
class Work:
    """Sums over all calls: rows x length, and estimated time."""

    padded: float = 0.0
    seconds: float = 0.0
    calls: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.padded + other.padded, self.seconds + other.seconds, self.calls + other.calls)


Units = Sequence[int]
"""Lengths of the segments of one Triton batch, in order of arrival."""
Policy = Callable[[Units, GearTable], Work]


def read_utterances(file: Path = RECORD) -> list[list[tuple[int, int]]]:
    """Ids and frames of each segment of each utterance."""
    utterances: dict[int, list[tuple[int, int]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line[:1].isdigit():
            number, ids, frames = map(int, line.split(","))
            utterances.setdefault(number, []).append((ids, frames))
    return list(utterances.values())


def batches_of(utterances: Sequence[Sequence[tuple[int, int]]], requests: int, graph: str) -> list[list[int]]:
    """Lengths of the segments of each Triton batch, in the unit of ``graph``."""
    column = 0 if graph == "encoder" else 1
    return [
        [segment[column] for utterance in utterances[start : start + requests] for segment in utterance]
        for start in range(0, len(utterances), requests)
    ]


def call_work(table: GearTable, shape: Shape) -> Work:
    """Work of one call."""
    return Work(shape.batch * shape.length, table.seconds(*shape), 1)


def triton_alone(units: Units, table: GearTable) -> Work:
    """In order of arrival, up to 8 together, padded to the longest and the smallest gear that holds them."""
    total = Work()
    most = BATCHES[-1]
    for start in range(0, len(units), most):
        chunk = units[start : start + most]
        fitting = [g for g in table.gears if g.batch >= len(chunk) and g.length >= max(chunk)]
        total += call_work(table, Shape(*min(fitting, key=lambda gear: (gear.batch * gear.length, gear))))
    return total


def packed(units: Units, table: GearTable) -> Work:
    """As the ``length_regulated`` program runs its graphs."""
    return sum((call_work(table, Shape(call.batch, call.length)) for call in pack(units, table)), Work())


def windowed(units: Units, table: GearTable) -> Work:
    """As the ``windowed`` program runs a generator that has a mask."""
    planner = WindowPlanner(table.unit_seconds(), OVERLAP_FRAMES, may_pad=True)
    return packed([window.frames for frames in units for window in planner.plan(frames)], table)


@lru_cache
def proposed(graph: str, from_half: bool = False) -> list[Gear]:
    """Gears that ``voxrepo convert`` proposes for the default voice."""
    record = read_record()
    if from_half:
        utterances = read_utterances()
        segments = [segment for utterance in utterances[: len(utterances) // 2] for segment in utterance]
        record = LengthRecord(tuple(ids for ids, _ in segments), tuple(frames for _, frames in segments))
    longest = LONGEST_IDS if graph == "encoder" else longest_frames(record, LONGEST_IDS)
    chosen = choose_gears(graph, parse_gears("auto"), record, longest=longest, overlap_frames=OVERLAP_FRAMES)
    return [Gear(gear.batch, gear.length) for gear in chosen]


def plain(graph: str) -> list[Gear]:
    """Powers of two with every batch size."""
    return [Gear(*gear) for gear in product(BATCHES, PLAIN_LENGTHS[graph])]


def program(graph: str) -> Policy:
    """As the graph's stage program makes calls."""
    return windowed if graph == "generator" else packed


TRITON_ALONE = "Triton alone"
WAYS: dict[str, tuple[Callable[[str], list[Gear]], Callable[[str], Policy]]] = {
    TRITON_ALONE: (plain, lambda graph: triton_alone),
    "packed": (plain, program),
    "packed, proposed gears": (proposed, program),
    "packed, gears from half": (lambda graph: proposed(graph, from_half=True), program),
}


def measure(
    utterances: Sequence[Sequence[tuple[int, int]]], requests: int, cost: Cost
) -> dict[str, dict[str, tuple[int, Work]]]:
    """Real work and what each way makes of it, by way and graph."""
    found: dict[str, dict[str, tuple[int, Work]]] = {}
    for way, (gears_for, policy_for) in WAYS.items():
        for graph in GRAPHS:
            batches = batches_of(utterances, requests, graph)
            seconds = {gear: cost.seconds(gear.batch, gear.length) for gear in gears_for(graph)}
            # what is not worth its rows is left out after the warm-up; a batcher alone does not know
            table = GearTable(seconds) if way == TRITON_ALONE else GearTable.measured(seconds)
            total = sum((policy_for(graph)(units, table) for units in batches), Work())
            found.setdefault(way, {})[graph] = (sum(map(sum, batches)), total)
    return found


def weighted(ratios: dict[str, float]) -> float:
    """Ratios of the graphs, weighed by the time that each takes for a sentence."""
    return sum(TIME_SHARES[graph] * ratios[graph] for graph in GRAPHS) / sum(TIME_SHARES.values())


def print_table(console: Console, utterances: Sequence[Sequence[tuple[int, int]]], requests: int, name: str) -> None:
    """One table for one cost."""
    found = measure(utterances, requests, COSTS[name])
    table = Table(title=f"{len(utterances)} utterances in Triton batches of {requests}; {name}")
    for column in ("padded work / real work", *GRAPHS, "all, by time", "time", "calls"):
        table.add_column(column, justify="left" if column.startswith("padded") else "right")
    first = {graph: work.seconds for graph, (_, work) in found[TRITON_ALONE].items()}
    for way, by_graph in found.items():
        ratios = {graph: work.padded / real for graph, (real, work) in by_graph.items()}
        seconds = weighted({graph: work.seconds / first[graph] for graph, (_, work) in by_graph.items()})
        calls = sum(work.calls for _, work in by_graph.values())
        table.add_row(
            way, *(f"{ratios[graph]:.3f}" for graph in GRAPHS), f"{weighted(ratios):.3f}", f"{seconds:.2f}", str(calls)
        )
    real = {graph: real for graph, (real, _) in found["packed"].items()}
    table.caption = f"real work: {real['encoder']} ids, {real['decoder']} frames; time is relative to Triton alone"
    console.print(table)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, nargs="+", default=[8, 32], help="requests per Triton batch")
    options = parser.parse_args()
    utterances = read_utterances()
    console = Console(width=120)
    for graph in GRAPHS:
        gears = proposed(graph)
        console.print(f"{graph}: {len(gears)} gears proposed: {' '.join(map(str, gears))}", style="dim")
    for name, requests in product(COSTS, options.requests):
        print_table(console, utterances, requests, name)


if __name__ == "__main__":
    main()
