"""The order of the steps from what was written to what is said.

1. :mod:`unicode`: one form for each character.
2. the voice's own replacement rules and the words of its lexicon (:mod:`text_backend.lexicon`).
3. :mod:`rules.markdown`: layout goes.
4. the rules, most specific first: what is an address, a number that names, a date cannot be a sum or a range.
5. for Mandarin the numbers that are left are said in their context, by :mod:`quantities` or else by wetext.
6. :mod:`rules.signs`: signs by name, symbols without a name are dropped and counted.

Steps 1 to 4 see the whole text, so that no sentence is cut inside a token; it is cut into sentences after them.
Steps 5 and 6 work on one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from text_backend.mapped import MappedText
from text_backend.normalisation import wetext_step
from text_backend.normalisation.rules import (
    abbreviations,
    chemistry,
    dates_times,
    designations,
    flights_plates,
    formulas,
    markdown,
    money,
    phones_ids,
    quantities_zh,
    ranges,
    roman,
    scores,
    signs,
    slashes,
    units,
    urls_emails,
    versions,
    years_en,
)
from text_backend.normalisation.rules.base import Rule, is_mixed
from text_backend.normalisation.unicode import EmojiPolicy, clean

Observe = Callable[[str, MappedText], None]
"""Called after each step that changed something, with its name."""

_DIGIT = re.compile(r"\d")
_ADDRESS = re.compile(r"[@/]|\w\.[A-Za-z]")

_ADDRESSES: tuple[Rule, ...] = urls_emails.RULES
_ALWAYS: tuple[Rule, ...] = versions.SUFFIXES + abbreviations.WORDS + roman.RULES
_WITH_DIGITS: tuple[Rule, ...] = (
    *designations.WORDS,
    *scores.SCORES,
    *quantities_zh.RULES,
    *years_en.RULES,
    *dates_times.RULES,
    *versions.RULES,
    *phones_ids.RULES,
    *flights_plates.RULES,
    *chemistry.RULES,
    *phones_ids.HYPHENATED,
    *designations.SERIES,
    *money.RULES,
    *units.RULES,
    *scores.RATIOS,
    *formulas.RULES,
    *ranges.RULES,
    *versions.MODELS,
    *phones_ids.LONG,
    *formulas.SIGNS,
    *abbreviations.NUMBER_SIGNS,
    *abbreviations.ORDINALS,
)

_ENGLISH_NUMBERS: tuple[Rule, ...] = years_en.BARE + abbreviations.NUMBERS


def prepare(text: MappedText, language: str, emoji: EmojiPolicy, *, fractions: bool = True) -> MappedText:
    """Step 1. Also done where normalisation is switched off: without it characters would be lost.

    Without it ``fractions`` is off too, as the rule that reads 1/2 is.
    """
    return clean(text, emoji, language, fractions=fractions)


def normalise_text(text: MappedText, language: str, observe: Observe | None = None) -> MappedText:
    """Steps 3 and 4, on a whole text.

    Args:
        text: after steps 1 and 2.
        language: code of the voice's language; without rules for it (neither ``en`` nor ``zh``) only layout goes.
        observe: told of each step.
    """
    text = _observed("layout", text, markdown.strip_markup(text, language), observe)
    if language not in ("en", "zh"):
        return text
    if _ADDRESS.search(text.text):
        text = _apply(_ADDRESSES, text, language, observe)
    text = _apply(_ALWAYS, text, language, observe)
    if _DIGIT.search(text.text):
        text = _apply(_WITH_DIGITS, text, language, observe)
    if "/" in text.text:
        text = _apply(units.BARE + slashes.RULES, text, language, observe)
    if language == "zh":
        text = _observed("numbers", text, wetext_step.read_beyond_allowance(text), observe)
    return text


def normalise_sentence(text: MappedText, language: str, observe: Observe | None = None) -> MappedText:
    """Steps 5 and 6, on a sentence."""
    if language not in ("en", "zh"):
        return text
    if _DIGIT.search(text.text):
        if language == "en" or is_mixed(text.text, language):
            text = _apply(_ENGLISH_NUMBERS, text, language, observe)
        if language == "zh":
            text = _observed("numbers", text, wetext_step.numbers_to_words(text), observe)
    return _observed("signs", text, signs.say_signs(text, language), observe)


def _apply(rules: tuple[Rule, ...], text: MappedText, language: str, observe: Observe | None) -> MappedText:
    characters = frozenset(text.text)
    for rule in rules:
        if not rule.may_match(characters):
            continue
        after = _observed(rule.name, text, rule.apply(text, language), observe)
        if after is not text:
            text, characters = after, frozenset(after.text)
    return text


def _observed(name: str, before: MappedText, after: MappedText, observe: Observe | None) -> MappedText:
    if observe is not None and after is not before:
        observe(name, after)
    return after
