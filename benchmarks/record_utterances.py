"""Records how many ids and frames the segments of 1,000 utterances have, for ``benchmarks.packing``.

``python -m benchmarks.record_utterances [--root DIR]`` speaks a seeded mix of real sentences: shortened ones, single
ones, several joined by commas, and paragraphs. Ids come from the real text front end, frames from the real encoder of
the voice with the noise that a request with that seed gets. Only the counts are kept.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import track
from voxrepo_client.load import SENTENCES as LOAD

from benchmarks.bare import REPOSITORY
from tests.e2e.calls import SENTENCES as SPOKEN

for _backend in ("ascend_om", "text_frontend"):
    sys.path.insert(0, str(REPOSITORY / "backends" / _backend))

from om_backend.length_regulator import frame_counts  # noqa: E402
from om_backend.noise import DURATION, gaussian  # noqa: E402
from om_backend.runtime import Graph, RuntimeSettings, load_graph  # noqa: E402
from text_backend.build import build_front_end  # noqa: E402

from voxrepo.repository.layout import Layout  # noqa: E402
from voxrepo.repository.voice import read_voice  # noqa: E402
from voxrepo_contract.stage import (  # noqa: E402
    LengthRegulatedOptions,
    LengthRegulatedStage,
    read_stage,
)

TARGET = REPOSITORY / "benchmarks" / "data" / "utterances-1000.csv"
SEED = 1000
SENTENCES = tuple(dict.fromkeys([*LOAD, *SPOKEN]))


def texts(generator: random.Random) -> Iterator[str]:
    """One in four utterances is a few words, half are a sentence, the rest are long ones and paragraphs."""

    def shortened(text: str) -> str:
        words = text.rstrip(".?").split()
        return " ".join(words[: generator.randint(1, len(words) - 1)]) + "."

    def joined(parts: list[str]) -> str:
        clauses = [part.rstrip(".?") for part in parts]
        return ", ".join([clauses[0], *(clause[0].lower() + clause[1:] for clause in clauses[1:])]) + "."

    while True:
        kind = generator.random()
        if kind < 0.25:
            yield shortened(generator.choice(SENTENCES))
        elif kind < 0.75:
            yield generator.choice(SENTENCES)
        elif kind < 0.9:
            yield joined(generator.sample(SENTENCES, generator.randint(2, 4)))
        else:
            yield " ".join(generator.sample(SENTENCES, generator.randint(2, 6)))


def frames_of(
    encoder: Graph, ids: npt.NDArray[np.int64], seed: int, segment: int, options: LengthRegulatedOptions
) -> int:
    """Frames of one segment, as the ``length_regulated`` program gets them at speed 1."""
    noise = gaussian(seed, segment, DURATION, (2, len(ids))) * np.float32(options.noise_w_scale)
    outputs = encoder.run(
        {
            "phoneme_ids": ids[np.newaxis],
            "lengths": np.array([len(ids)], np.int64),
            "duration_noise": noise[np.newaxis],
        }
    )
    durations = outputs["durations"][0, 0].astype(np.float32)
    counts = frame_counts(durations, options.length_scale, options.max_frames_per_id, options.max_frames_per_segment)
    return int(counts.sum())


def main() -> None:
    """Speak and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="root with the voice")
    parser.add_argument("--voice", default="en-joe")
    parser.add_argument("--utterances", type=int, default=1000)
    options = parser.parse_args()
    layout = Layout.of(options.root)
    voice = read_voice(layout, options.voice)
    models = voice.stage_models()
    folders = {name: layout.version_dir(models[name], voice.versions[name]) for name in ("text_frontend", "acoustic")}
    acoustic = read_stage(folders["acoustic"])
    assert isinstance(acoustic, LengthRegulatedStage)
    encoder = load_graph(folders["acoustic"], acoustic.graphs["encoder"], RuntimeSettings())
    built = build_front_end(folders["text_frontend"])
    spoken = texts(random.Random(SEED))
    lines = [
        f"# ids and frames of the segments of {options.utterances} utterances, a segment a line, in order of arrival;",
        "# made by `python -m benchmarks.record_utterances`: sentences of voxrepo_client.load and tests/e2e/calls.py, "
        f"shortened, alone, joined and in paragraphs (seed {SEED}), spoken by {options.voice} at speed 1",
        "utterance,ids,frames",
    ]
    for number in track(range(options.utterances), description="speaking"):
        utterance = built.front_end.run(next(spoken), 1.0, "")
        for segment, ids in enumerate(np.split(utterance.phoneme_ids, np.cumsum(utterance.segment_lengths)[:-1])):
            lines.append(f"{number},{len(ids)},{frames_of(encoder, ids, number, segment, acoustic.options)}")
    built.close()
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
