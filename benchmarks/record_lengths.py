"""Records how long segments are: ids from the real front end, frames from the real duration predictor.

Writes ``voxrepo/convert/data/segment-lengths.csv``, from which gears are proposed where a user has no record of
their own. Run it as ``python -m benchmarks.record_lengths --root ROOT`` after the default voice was imported there.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort

REPOSITORY = Path(__file__).resolve().parent.parent
for _backend in ("ascend_om", "text_frontend"):
    sys.path.insert(0, str(REPOSITORY / "backends" / _backend))

from om_backend.length_regulator import frame_counts  # noqa: E402
from text_backend.build import build_front_end  # noqa: E402
from voxrepo_client.load import SENTENCES  # noqa: E402

from voxrepo.repository.layout import Layout  # noqa: E402
from voxrepo.repository.voice import read_voice  # noqa: E402
from voxrepo_contract.stage import LengthRegulatedStage, read_stage  # noqa: E402

SEED = 20_261_130
TARGET = REPOSITORY / "voxrepo" / "convert" / "data" / "segment-lengths.csv"
SHORT = ("Yes.", "No, thank you.", "Good morning!", "One moment, please.", "At ten past nine.", "Thursday.")


def sentences(generator: random.Random) -> Iterator[str]:
    """Made of the load generator's sentences: alone, shortened, and two or three joined by a comma."""

    def shortened(text: str) -> str:
        words = text.rstrip(".?").split()
        return " ".join(words[: generator.randint(3, len(words))])

    while True:
        kind = generator.random()
        one = generator.choice(SENTENCES)
        if kind < 0.1:
            yield generator.choice(SHORT)
        elif kind < 0.4:
            yield shortened(one) + "."
        elif kind < 0.7:
            yield one
        else:
            parts = generator.sample(SENTENCES, 2 if kind < 0.93 else 3)
            yield ", and ".join(shortened(part) for part in parts) + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--voice", default="en-joe")
    parser.add_argument("--segments", type=int, default=800)
    options = parser.parse_args()
    layout = Layout.of(options.root)
    models = read_voice(layout, options.voice).stage_models()
    front_dir, acoustic_dir = (layout.version_dir(models[stage], 1) for stage in ("text_frontend", "acoustic"))
    acoustic = read_stage(acoustic_dir)
    assert isinstance(acoustic, LengthRegulatedStage)
    built = build_front_end(front_dir)
    encoder = ort.InferenceSession(acoustic_dir / acoustic.graphs["encoder"].file, providers=["CPUExecutionProvider"])
    noise = np.random.default_rng(SEED)
    lengths: list[tuple[int, int]] = []
    texts = sentences(random.Random(SEED))
    while len(lengths) < options.segments:
        utterance = built.front_end.run(next(texts), 1.0, "")
        for ids in np.split(utterance.phoneme_ids, np.cumsum(utterance.segment_lengths)[:-1]):
            feeds = {
                "phoneme_ids": ids[None],
                "lengths": np.array([len(ids)], np.int64),
                "duration_noise": noise.standard_normal((1, 2, len(ids)), dtype=np.float32)
                * np.float32(acoustic.options.noise_w_scale),
            }
            durations = encoder.run(["durations"], feeds)[0][0, 0]
            counts = frame_counts(durations, acoustic.options.length_scale, acoustic.options.max_frames_per_id, 20_000)
            lengths.append((len(ids), int(counts.sum())))
    built.close()
    lines = [
        "# ids and frames of one segment a line, at speed 1; made by `python -m benchmarks.record_lengths`",
        "# from the sentences of voxrepo_client.load (alone, shortened, joined; seeded) spoken by the voice en-joe",
        "ids,frames",
        *(f"{ids},{frames}" for ids, frames in lengths),
    ]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"{len(lengths)} segments: ids {np.percentile([i for i, _ in lengths], [0, 10, 50, 90, 100])}, "
        f"frames {np.percentile([f for _, f in lengths], [0, 10, 50, 90, 100])}"
    )


if __name__ == "__main__":
    main()
