"""The baseline: the stages of a voice called in one Python process, without Triton, queue or network.

It uses the backends' own programs, so the difference to the server is what serving costs. Run as a program it answers
commands on standard input, one JSON object per line, so that it can be measured in turn with a server.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
for _backend in ("ascend_om", "text_frontend"):
    sys.path.insert(0, str(REPOSITORY / "backends" / _backend))

from om_backend.job import Job  # noqa: E402
from om_backend.programs import load_program  # noqa: E402
from om_backend.runtime import RuntimeSettings  # noqa: E402
from text_backend.build import build_front_end  # noqa: E402

from voxrepo.repository.layout import Layout  # noqa: E402
from voxrepo.repository.voice import read_voice  # noqa: E402
from voxrepo_contract.errors import VoxrepoError  # noqa: E402

WARM_UP_S = 1.0


class BareVoice:
    """The three stages of a voice in this process; one caller at a time.

    Args:
        layout: of the repository that holds the voice.
        voice: its name.
        threads: of each graph.
        phonemizer: another one than the voice's stage names.
    """

    def __init__(self, layout: Layout, voice: str, threads: int, phonemizer: str | None = None) -> None:
        spec = read_voice(layout, voice)
        models = spec.stage_models()
        folders = {stage: layout.version_dir(models[stage], spec.versions[stage]) for stage in models}
        self._built = build_front_end(folders["text_frontend"], phonemizer)
        assert self._built.phonemizer is not None
        self.phonemizer = self._built.phonemizer
        self._front = self._built.front_end
        settings = RuntimeSettings(threads=threads)
        self._acoustic = load_program(folders["acoustic"], settings, 1)
        self._vocoder = load_program(folders["vocoder"], settings, 1)
        self.sample_rate_hz = spec.sample_rate_hz

    def speak(self, text: str, seed: int = 0, speed: float = 1.0) -> np.ndarray[Any, np.dtype[np.int16]]:
        """INT16 [N] audio of ``text``."""
        spoken = self._front.run(text, speed, "")
        features = _run(
            self._acoustic,
            {
                "phoneme_ids": spoken.phoneme_ids[np.newaxis],
                "segment_lengths": spoken.segment_lengths[np.newaxis],
                "pause_ms": spoken.pause_ms[np.newaxis],
                "speed": np.array([[speed]], np.float32),
                "speaker_id": np.array([[spoken.speaker_id]], np.int64),
                "seed": np.array([[seed]], np.int64),
            },
        )
        audio: np.ndarray[Any, np.dtype[np.int16]] = _run(self._vocoder, features)["audio"][0]
        return audio


def _run(program: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    answers: list[Mapping[str, Any]] = []

    def fail(error: VoxrepoError) -> None:
        raise error

    program.run([Job(inputs, {}, answers.append, fail)])
    return dict(answers[0])


def measure(voices: list[BareVoice], texts: list[str], duration_s: float) -> dict[str, float]:
    """Let every voice speak in a thread of its own for a time; returns rates and latencies."""
    begin = time.perf_counter() + WARM_UP_S
    end = begin + duration_s
    results: queue.Queue[tuple[float, float]] = queue.Queue()

    def work(voice: BareVoice, turn: int) -> None:
        while (start := time.perf_counter()) < end:
            audio = voice.speak(texts[turn % len(texts)])
            stop = time.perf_counter()
            if begin <= stop <= end:
                results.put((stop - start, len(audio) / voice.sample_rate_hz))
            turn += 1

    threads = [threading.Thread(target=work, args=(voice, index)) for index, voice in enumerate(voices)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies, seconds = zip(*[results.get() for _ in range(results.qsize())], strict=True)
    return {
        "audio_s_per_s": sum(seconds) / duration_s,
        "p50_ms": float(np.percentile(latencies, 50)) * 1000,
        "p95_ms": float(np.percentile(latencies, 95)) * 1000,
    }


def main() -> None:
    """Load, then answer ``{"texts": [...], "duration_s": S}`` lines until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--voice", default="en-joe")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    layout = Layout.of(options.root)
    voices = [BareVoice(layout, options.voice, options.threads) for _ in range(options.workers)]
    for voice in voices:
        voice.speak("Warm up, please.")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(measure(voices, order["texts"], order["duration_s"])), flush=True)


if __name__ == "__main__":
    main()
