"""Gears: the planner of ``voxrepo gears`` and ``voxrepo convert`` against powers of two of as many gears.

``python -m benchmarks.gears [--max-gears 8 16 24] [--record-mandarin --root ROOT]`` plans for the recorded mix that
ships (en-joe) and for the Mandarin one beside it (zh-baker), for each graph of the two voices. Nothing is run: pools of
1 to 32 units of the record are packed as the server packs them, and times come from a cost that is printed with the
table. ``--record-mandarin`` makes the Mandarin record anew, from the voice itself.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from voxrepo.convert.gear_choice import gear_task, longest_frames
from voxrepo.convert.gear_plan import ONE_GEAR, PLANNED, POWERS_OF_TWO, GearPlan
from voxrepo.convert.gear_planner import plan_gears
from voxrepo.convert.records import SHIPPED_RECORD, read_record

MANDARIN_RECORD = Path(__file__).resolve().parent / "data" / "mandarin-lengths.csv"
GRAPHS = ("encoder", "decoder", "generator")
SEED = 20_261_201


@dataclass(frozen=True)
class Voice:
    """What a plan needs to know of a voice.

    Attributes:
        name: of the voice.
        record: of its segments.
        longest_ids: of a segment of its front end.
        longest_frames: that its decoder takes at most.
        overlap_frames: of its vocoder's windows.
    """

    name: str
    record: Path
    longest_ids: int
    longest_frames: int
    overlap_frames: int


VOICES = (
    Voice("en-joe", SHIPPED_RECORD, 400, 20_000, 11),
    Voice("zh-baker", MANDARIN_RECORD, 200, 8192, 21),
)


@lru_cache
def planned(voice: Voice, graph: str, max_gears: int) -> GearPlan:
    """The plan for one graph."""
    record = read_record(voice.record)
    longest = voice.longest_ids
    if graph == "decoder":
        longest = min(voice.longest_frames, longest_frames(record, voice.longest_ids))
    return plan_gears(
        gear_task(graph, record, longest=longest, overlap_frames=voice.overlap_frames, max_gears=max_gears)
    )


def texts(generator: random.Random) -> Iterator[str]:
    """Everyday sentences: alone, their clauses, and two joined by a comma."""
    from voxrepo.versions.texts import TEXTS

    sentences = [part + "。" for text in TEXTS["zh"] for part in text.rstrip("。！？").split("。") if part]
    clauses = [clause for sentence in sentences for clause in sentence.rstrip("。").split("，")]
    while True:
        kind = generator.random()
        if kind < 0.4:
            yield generator.choice(clauses) + "。"
        elif kind < 0.75:
            yield generator.choice(sentences)
        else:
            yield "，".join(generator.sample(clauses, generator.choice((2, 2, 3)))) + "。"


def record_mandarin(root: Path, segments: int) -> None:
    """Write the Mandarin record from texts that the voice reads."""
    from voxrepo.convert.text_lengths import lengths_of
    from voxrepo.repository.layout import Layout
    from voxrepo.repository.voice import read_voice

    layout = Layout.of(root)
    drawn = texts(random.Random(SEED))
    record = lengths_of(layout, read_voice(layout, "zh-baker"), [next(drawn) for _ in range(segments)])
    lines = [
        "# ids and frames of one segment a line, at speed 1; made by `python -m benchmarks.gears --record-mandarin`",
        "# from the Mandarin texts of voxrepo.versions.texts (alone, their clauses, joined; seeded), voice zh-baker",
        "ids,frames",
        *(f"{ids},{frames}" for ids, frames in zip(record.ids, record.frames, strict=True)),
    ]
    MANDARIN_RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-gears", type=int, nargs="+", default=[8, 24])
    parser.add_argument("--record-mandarin", action="store_true", help="make the Mandarin record anew")
    parser.add_argument("--root", type=Path, default=Path(), help="with the voice zh-baker, for that")
    parser.add_argument("--segments", type=int, default=400)
    options = parser.parse_args()
    if options.record_mandarin:
        record_mandarin(options.root, options.segments)
    table = Table(
        title="planned gears against powers of two of as many gears and one gear; a call costs as much as 230 frames"
    )
    columns = ("voice", "graph", "gears up to", "gears", "padded work", "of powers of two", "ms per unit")
    for column in (*columns, "of powers of two", "of one gear"):
        table.add_column(column, justify="left" if column in {"voice", "graph"} else "right")
    for voice in VOICES:
        for graph in GRAPHS:
            for most in options.max_gears:
                plan = planned(voice, graph, most)
                mine, powers, one = (plan.way(name) for name in (PLANNED, POWERS_OF_TWO, ONE_GEAR))
                table.add_row(
                    voice.name,
                    graph,
                    str(most),
                    f"{len(mine.gears)} / {len(powers.gears)}",
                    f"{mine.expected.padding:.3f}",
                    f"{powers.expected.padding:.3f}",
                    f"{mine.expected.unit_s * 1e3:.3f}",
                    f"{powers.expected.unit_s * 1e3:.3f}",
                    f"{one.expected.unit_s * 1e3:.3f}",
                )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
