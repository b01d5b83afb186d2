"""Piper's own sentence streaming: ``PiperVoice.synthesize``, which yields the audio of one sentence after another.

Piper is GPL-3.0 and stays a process of its own. Run as a program it answers commands on standard input, one JSON
object per line, so that it can be measured in turn with a server.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from voxrepo_client import StreamTiming

from benchmarks.json_process import JsonProcess
from voxrepo.importers.install import default_piper_voice


class PiperProcess(JsonProcess):
    """Piper with the wheel's voice, in a process of its own.

    Args:
        threads: onnxruntime's, within an operator.

    Raises:
        SystemExit: piper-tts is not installed (extra ``espeak``).
    """

    def __init__(self, threads: int) -> None:
        super().__init__(
            *("benchmarks.piper", "--threads", str(threads)),
            hint="piper did not answer; install the extra 'espeak': pip install 'voxrepo[espeak]'",
        )

    def streamed(self, text: str, count: int) -> list[StreamTiming]:
        """``count`` streams of ``text`` at once, each in a thread."""
        answer = self.ask({"text": text, "count": count})
        return [StreamTiming(tuple(each["arrivals_s"]), tuple(each["pieces_s"])) for each in answer]

    def __enter__(self) -> PiperProcess:
        return self


def load(model: Path, config: Path, threads: int) -> Any:
    """A ``PiperVoice`` whose graph runs on ``threads`` threads."""
    import onnxruntime
    from piper import PiperVoice

    voice = PiperVoice.load(model, config)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    voice.session = onnxruntime.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])
    return voice


def speak(voice: Any, text: str) -> dict[str, list[float]]:
    """When each sentence came, and how long it is, in seconds."""
    start_s = time.perf_counter()
    arrivals_s: list[float] = []
    pieces_s: list[float] = []
    for chunk in voice.synthesize(text):
        samples = chunk.audio_int16_array  # what a listener needs
        arrivals_s.append(time.perf_counter() - start_s)
        pieces_s.append(len(samples) / chunk.sample_rate)
    return {"arrivals_s": arrivals_s, "pieces_s": pieces_s}


def speak_at_once(voice: Any, text: str, count: int) -> list[dict[str, list[float]]]:
    """:func:`speak` in ``count`` threads, which share the voice."""
    results: list[dict[str, list[float]]] = []
    threads = [threading.Thread(target=lambda: results.append(speak(voice, text))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def main() -> None:
    """Load, then answer ``{"text": T, "count": N}`` lines until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, required=True)
    threads = parser.parse_args().threads
    source = default_piper_voice()
    voice = load(source.onnx_file, source.config_file, threads)
    speak(voice, "Warm up, please.")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(speak_at_once(voice, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
