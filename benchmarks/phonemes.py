"""Compares the phonemizer cmudict with espeak-ng, whose phonemes the Piper voices were trained on.

    python -m benchmarks.phonemes [--root FOLDER] [--voice en-joe] [--spoken 200]

Needs the extras ``espeak`` and ``asr``, the voice, and ``pip install wordfreq`` for the words: the 1,000 commonest
and 1,000 drawn from the next 29,000 with a fixed seed. The sentences are in ``benchmarks/data``. Printed are the
phoneme error rates against espeak (one symbol is one id of the voice), and for both phonemizers the word error rate
of a recogniser on the audio that one voice makes of the same sentences with the same seeds. First, speed and memory.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.bare import BareVoice
from tests.recogniser import load_recogniser, words
from voxrepo.repository.layout import Layout

SENTENCES = Path(__file__).parent / "data" / "english_sentences.txt"
COMMON_WORDS = 1000
DRAWN_WORDS = 1000
DRAWN_FROM = 30_000
SEED = 20
_STRESS = str.maketrans("", "", "\u02c8\u02cc")


def edits(found: Sequence[object], expected: Sequence[object]) -> int:
    """Fewest insertions, deletions and substitutions that turn ``found`` into ``expected``."""
    row = list(range(len(expected) + 1))
    for index, item in enumerate(found, start=1):
        previous, row[0] = row[0], index
        for column, other in enumerate(expected, start=1):
            previous, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, previous + (item != other)),
            )
    return row[-1]


def common_words() -> list[str]:
    """2,000 English words, half of them the commonest."""
    try:
        from wordfreq import top_n_list
    except ImportError as error:
        raise SystemExit("error: the list of words is in a package of its own; run: pip install wordfreq") from error
    listed = [word for word in top_n_list("en", DRAWN_FROM + 5000) if re.fullmatch("[a-z]{2,}", word)][:DRAWN_FROM]
    return listed[:COMMON_WORDS] + random.Random(SEED).sample(listed[COMMON_WORDS:], DRAWN_WORDS)


def phonemes(phonemizer: object, texts: Sequence[str]) -> list[str]:
    """All that a phonemizer says to each text, in one line."""
    said: list[str] = []
    for start in range(0, len(texts), 100):
        for clauses in phonemizer.phonemize(texts[start : start + 100]):  # type: ignore[attr-defined]
            said.append(" ".join(clause.phonemes + clause.terminator for clause in clauses))
    return said


def print_error_rates(name: str, found: Sequence[str], expected: Sequence[str]) -> None:
    """One row of the first table."""
    rates = []
    for marks in ({}, _STRESS):
        pairs = [(a.translate(marks), b.translate(marks)) for a, b in zip(found, expected, strict=True)]
        rates.append(sum(edits(a, b) for a, b in pairs) / sum(len(b) for _, b in pairs))
    exact = sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)
    print(f"| {len(expected)} {name} | {rates[0]:.2%} | {rates[1]:.2%} | {exact:.1%} |")


def print_costs(sentences: Sequence[str]) -> None:
    """What it takes to load, to keep, and for a sentence with new and with known words."""
    from text_backend.g2p.english import EnglishPhonemizer

    process = psutil.Process()
    before_bytes, start = process.memory_info().rss, time.perf_counter()
    phonemizer = EnglishPhonemizer()
    loaded = time.perf_counter()
    phonemizer.phonemize(sentences)
    first = time.perf_counter()
    phonemizer.phonemize(sentences)
    second = time.perf_counter()
    print(
        f"loads in {loaded - start:.2f} s; {len(sentences) / (first - loaded):.0f} sentences/s with new words, "
        f"{len(sentences) / (second - first):.0f} with known ones; "
        f"{(process.memory_info().rss - before_bytes) / 2**20:.0f} MB\n"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--voice", default="en-joe")
    parser.add_argument("--spoken", type=int, default=200, help="sentences to synthesise and recognise")
    options = parser.parse_args()
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    frequent = common_words()
    print_costs(sentences)

    layout = Layout.of(options.root)
    espeak = BareVoice(layout, options.voice, 2, "espeak")
    cmudict = BareVoice(layout, options.voice, 2, "cmudict")

    print("| against espeak | phoneme errors | without stress marks | equal |\n|---|---|---|---|")
    for name, texts in (("words", frequent), ("sentences", sentences)):
        print_error_rates(name, phonemes(cmudict.phonemizer, texts), phonemes(espeak.phonemizer, texts))

    recogniser = load_recogniser()
    print("\n| phonemizer | word errors | of words | rate |\n|---|---|---|---|")
    for name, voice in (("espeak", espeak), ("cmudict", cmudict)):
        wrong = total = 0
        for seed, sentence in enumerate(sentences[: options.spoken]):
            heard = recogniser.transcribe(voice.speak(sentence, seed), voice.sample_rate_hz)
            wrong += edits(words(heard), words(sentence))
            total += len(words(sentence))
        print(f"| {name} | {wrong} | {total} | {wrong / total:.2%} |", flush=True)


if __name__ == "__main__":
    main()
