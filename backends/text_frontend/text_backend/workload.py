r"""How much a request may say.

Work and memory follow what is said, not what is written: a character may be written out as ten (``½``, ``①``, ``\\``),
and each line is a sentence however short. What texts of people need is far below these limits, which no text of the
usual 4,096 characters reaches; what is above them would keep a process busy for seconds, and make hours of speech.
"""

from __future__ import annotations

from voxrepo_contract.errors import InvalidArgument

SPOKEN_CHARS_MIN = 65_536
"""Characters that any text may say once numbers, signs and addresses are written out."""
SPOKEN_PER_CHARACTER = 3.0
"""What a longer text may say, in characters for each that it has: number words are long in alphabetic languages."""
SPOKEN_PER_CHARACTER_ZH = 1.5
"""The same for Mandarin, where each character is a syllable."""
SENTENCES_MIN = 2048
"""Sentences that any text may have."""
CHARACTERS_PER_SENTENCE = 12
"""A longer text may have one sentence for so many characters."""

PHONEME_IDS_MIN = 131_072
"""Phoneme ids that any text may come to: some 40 minutes of speech. Names of letters and signs have the most, up to 30
for a character; running text has two or three."""
PHONEME_IDS_PER_CHARACTER = 8
"""What a longer text may come to, in ids for each character that it has."""


def check_spoken_chars(text_chars: int, spoken_chars: int, language: str) -> None:
    """Refuse a text that says too much.

    Args:
        text_chars: length of the request's text.
        spoken_chars: characters after (a part of) normalisation.
        language: code of the voice.

    Raises:
        InvalidArgument: with both numbers.
    """
    growth = SPOKEN_PER_CHARACTER_ZH if language == "zh" else SPOKEN_PER_CHARACTER
    limit = max(SPOKEN_CHARS_MIN, int(text_chars * growth))
    if spoken_chars > limit:
        raise InvalidArgument(
            f"text: its {text_chars} characters say more than {limit} once numbers and signs are written out; "
            "send it in parts"
        )


def check_phoneme_ids(text_chars: int, phoneme_ids: int) -> None:
    """Refuse a text of too many phonemes; to be asked before they are laid out.

    Args:
        text_chars: length of the request's text.
        phoneme_ids: that it comes to, or fewer.

    Raises:
        InvalidArgument: with the limit.
    """
    limit = max(PHONEME_IDS_MIN, text_chars * PHONEME_IDS_PER_CHARACTER)
    if phoneme_ids > limit:
        raise InvalidArgument(
            f"text: its {text_chars} characters come to more than {limit} phoneme ids, which is the limit; "
            "send it in parts"
        )


def check_sentences(text_chars: int, sentences: int) -> None:
    """Refuse a text of too many sentences.

    Args:
        text_chars: length of the request's text.
        sentences: that it was cut into.

    Raises:
        InvalidArgument: with both numbers.
    """
    limit = max(SENTENCES_MIN, text_chars // CHARACTERS_PER_SENTENCE)
    if sentences > limit:
        raise InvalidArgument(
            f"text: has {sentences} sentences or lines in {text_chars} characters; at most {limit} are read in one "
            "request; send it in parts"
        )
