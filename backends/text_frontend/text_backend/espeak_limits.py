"""Keeping texts within what espeak-ng reads completely.

espeak-ng works in fixed buffers and silently leaves out what does not fit: about 200 phonemes of a word (30 digits,
20 spelled letters), about 800 characters, 200 words or 1,000 phonemes of a clause. Longer runs of letters with full
stops crash it. Nothing may be left out, so long words get blanks and long sentences are sent in pieces. A sentence
within the limits passes unchanged. The limits were found by asking for 1 to 800 repetitions of 40 different units
and looking where phonemes per repetition fall (piper-tts 1.8.0).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from text_backend.splitting import Cut, cut_points

SPELLED_RUN_CHARS = 18
NUMBER_RUN_CHARS = 28
WORD_RUN_CHARS = 60
PIECE_PHONEMES = 800

_PHONEMES_PER_WORD_LETTER = 2
_PHONEMES_PER_SPELLED_LETTER = 8
_PHONEMES_PER_DIGIT = 11
_PHONEMES_PER_SIGN = 14
_PHONEMES_PER_SIGN_AFTER_SIGN = 44
# signs in a row count as one word, blanks between them or not
_PHONEMES_PER_INNER_STOP = 20
# not a sound: 50 letters with full stops between them crash espeak-ng, this keeps them below 40
_PHONEMES_PER_MARK = 1
_PHONEMES_PER_WORD_MIN = 5

_LONG_RUN = re.compile(r"[\w.,'\u2019]{19,}|[^\w\s.,'\u2019]{19,}")
_NUMBER = re.compile(r"[\d.,]+\Z")
_WORD = re.compile(r"[^\W\d_]+|\d+|\s+|.", re.DOTALL)
_MARKS = ".,;:!?'\"()\u2019\u2018\u201c\u201d-"
_CLAUSE_MARKS = ",;:\u2026\u2014\u2013"
_NO_VOWEL = re.compile("[^aeiouy\u0430\u0435\u0438\u043e\u0443\u044b\u044d\u044e\u044f]{6}")


def pieces(text: str) -> list[str]:
    """Cut a sentence so that each piece is read completely.

    Args:
        text: one normalised sentence.

    Returns:
        The sentence alone if it is within the limits; else pieces cut after a clause mark, between words or, as
        the last resort, inside a word. Joined, they hold every character but the blanks at the cuts.
    """
    loosened = _LONG_RUN.sub(lambda match: " ".join(_cut_run(match.group())), text)
    if len(loosened) * _PHONEMES_PER_SIGN_AFTER_SIGN <= PIECE_PHONEMES:
        return [loosened]
    words = _WORD.findall(loosened)
    costs = _phonemes_of_all(words)
    if sum(costs) <= PIECE_PHONEMES:
        return [loosened]
    cuts = [_cut_after(word, before) for word, before in zip(words, ["\0", *words], strict=False)]
    bounds = [0, *cut_points(costs, cuts, PIECE_PHONEMES), len(words)]
    parts = ("".join(words[start:end]).strip() for start, end in pairwise(bounds))
    return [part for part in parts if part]


def _cut_run(run: str) -> list[str]:
    if _NUMBER.match(run):
        size = NUMBER_RUN_CHARS
    elif _is_pronounceable(run):
        size = WORD_RUN_CHARS
    else:
        size = SPELLED_RUN_CHARS
    return [run[start : start + size] for start in range(0, len(run), size)]


def _is_pronounceable(run: str) -> bool:
    """Whether espeak-ng will read the run as words and not letter by letter."""
    letters = [c for c in unicodedata.normalize("NFD", run.lower()) if c.isalpha()]
    if any(character.isdigit() or character == "_" for character in run):
        return False
    return _NO_VOWEL.search("".join(letters)) is None


def _phonemes_of_all(words: list[str]) -> list[int]:
    alone = list(map(_phonemes_of, words))
    if _PHONEMES_PER_SIGN not in alone and "." not in words:
        return alone
    costs: list[int] = []
    after_sign = False
    for word, of_word, following in zip(words, alone, [*words, " "][1:], strict=True):
        cost = of_word
        if cost == _PHONEMES_PER_SIGN and after_sign:
            cost = _PHONEMES_PER_SIGN_AFTER_SIGN
        elif word == "." and not following.isspace():
            cost = _PHONEMES_PER_INNER_STOP
        if not word.isspace():
            after_sign = cost in (_PHONEMES_PER_SIGN, _PHONEMES_PER_SIGN_AFTER_SIGN)
        costs.append(cost)
    return costs


@lru_cache(maxsize=8192)
def _phonemes_of(word: str) -> int:
    """Upper estimate of the phonemes that espeak-ng makes of a word."""
    if word.isspace() or word in _MARKS:
        return _PHONEMES_PER_MARK
    if word.isdigit():
        return _PHONEMES_PER_DIGIT * len(word)
    if not word.isalpha():
        return _PHONEMES_PER_SIGN
    spelled = word.isupper() or not _is_pronounceable(word) or not _has_vowel(word)
    per_letter = _PHONEMES_PER_SPELLED_LETTER if spelled else _PHONEMES_PER_WORD_LETTER
    return max(per_letter * len(word), _PHONEMES_PER_WORD_MIN)


def _has_vowel(word: str) -> bool:
    return any(c in "aeiouy" for c in unicodedata.normalize("NFD", word.lower())) or not word.isascii()


def _cut_after(word: str, before: str) -> Cut:
    if not word.isspace():
        return Cut.HARD
    return Cut.CLAUSE if before in _CLAUSE_MARKS else Cut.WORD
