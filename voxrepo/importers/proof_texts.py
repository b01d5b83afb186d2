"""Ten id sequences for the proof of a cut.

The proof needs ids, not words. They are made up from the voice's own phonemes, so that it runs without a phonemizer,
for any language, and always on the same input: syllables of a consonant and a vowel, in words of one to four
syllables, framed and padded as Piper does it. The longest gives several windows of audio.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from voxrepo.importers.piper_config import BOS, EOS, PAD

TEXT_LENGTHS_IDS = (13, 21, 35, 51, 69, 93, 123, 163, 213, 271)
"""Lengths of the ten texts in ids, as everyday sentences have them."""

SEED = 20_210_611

_CONSONANTS = [
    "p",
    "b",
    "t",
    "d",
    "k",
    "ɡ",
    "m",
    "n",
    "ŋ",
    "f",
    "v",
    "s",
    "z",
    "ʃ",
    "ʒ",
    "h",
    "l",
    "ɹ",
    "r",
    "w",
    "j",
    "θ",
    "ð",
    "x",
]
_VOWELS = ["a", "e", "i", "o", "u", "y", "ə", "ɪ", "ʊ", "ɛ", "ɔ", "æ", "ʌ", "ɑ", "ɒ", "ø", "œ"]


@dataclass(frozen=True)
class ProofText:
    """One sequence: ids, and the speaker that says it."""

    ids: tuple[int, ...]
    speaker_id: int


def _alphabet(phonemes: Mapping[str, Sequence[int]], wanted: Sequence[str]) -> list[str]:
    usable = [symbol for symbol in wanted if len(phonemes.get(symbol, ())) == 1]
    if len(usable) >= 2:
        return usable
    # an inventory without IPA letters: all its symbols serve, since any of them is a legal input
    return sorted(s for s, ids in phonemes.items() if len(ids) == 1 and s not in {PAD, BOS, EOS})


def proof_texts(phonemes: Mapping[str, Sequence[int]], speakers: int) -> Iterator[ProofText]:
    """An endless, deterministic stream of texts; the ten lengths come round again after the tenth."""
    generator = np.random.default_rng(SEED)
    consonants, vowels = _alphabet(phonemes, _CONSONANTS), _alphabet(phonemes, _VOWELS)
    space = phonemes.get(" ", ())
    pad = phonemes[PAD]
    number = 0
    while True:
        wanted = TEXT_LENGTHS_IDS[number % len(TEXT_LENGTHS_IDS)]
        ids = [*phonemes[BOS], *pad]
        until_space = int(generator.integers(1, 5))
        while len(ids) + len(phonemes[EOS]) < wanted:
            for letters in (consonants, vowels):
                if len(ids) + len(phonemes[EOS]) < wanted:
                    ids += [*phonemes[letters[int(generator.integers(len(letters)))]], *pad]
            until_space -= 1
            if until_space == 0 and space and len(ids) + len(phonemes[EOS]) < wanted:
                ids += [*space, *pad]
                until_space = int(generator.integers(1, 5))
        ids += phonemes[EOS]
        # the first texts alternate between the first and the last speaker, the rest go through all
        speaker = (0, speakers - 1)[number] if number < 2 else (number * 7) % speakers
        yield ProofText(tuple(ids), speaker)
        number += 1
