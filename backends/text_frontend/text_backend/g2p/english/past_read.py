"""Whether "read" is the past of the verb ("red") or its present ("reed"): the commonest word that only tense tells.

From the words around it: its auxiliary, its subject, and whether the sentence names a time that is over. No word is
looked at more than a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_ADVERBS = _words(
    "actually again all already also always both carefully clearly closely even ever finally first frequently fully "
    "hardly just later never not often once only over probably quickly quietly rarely really recently seldom silently "
    "simply slowly soon still then twice usually widely"
)
_PERFECT = _words(
    "have has had having haven't hasn't hadn't i've you've we've they've who've he's she's could've should've would've "
    "might've must've"
)
_PASSIVE = _words("is are was were be been being isn't aren't wasn't weren't get gets got getting it's they're")
_BEFORE_THE_BASE = _words(
    "to do does did don't doesn't didn't will would won't wouldn't can could can't cannot couldn't shall should "
    "shouldn't may might must mustn't let let's please make makes made help helps helped i'll you'll he'll she'll "
    "it'll we'll they'll i'd you'd he'd she'd we'd they'd"
)
"""What the plain form of a verb follows: "to read", "did you read", "let her read"."""
_SINGULAR = _words("he she it")
_PRONOUNS = _words(
    "i you he she it we they me him her us them anyone anybody everyone everybody someone somebody nobody who"
)
_SUBJECTS = _words("i you he she it we they who everyone everybody nobody someone somebody")
_DETERMINERS = _words("the a an my your his her our their this that these those")
_ENDS_OF_REACH = _words("and or but if when while because although since before after that which as so than")
_PAST_OF_OTHERS = _words(
    "sat took went came got stood bought found wrote said saw made had was were did gave lay heard told met ate drank "
    "woke left kept sent brought thought began ran"
)
_OVER = _words("yesterday ago earlier")
_LAST = _words(
    "night week weekend month year time evening summer winter spring autumn fall monday tuesday wednesday thursday "
    "friday saturday sunday january february march april may june july august september october november december"
)
_PAIRS_OVER = frozenset({("this", "morning"), ("the", "other"), ("i", "was"), ("we", "were"), ("he", "was")})
_YOUTH = _words("child kid boy girl student teenager")
_REACH = 6
_REACH_OF_AND = 12


def is_over(words: Sequence[str]) -> bool:
    """Whether a clause names a time that is over: "yesterday", "two years ago", "last week", "when I was".

    Args:
        words: in lower case.
    """
    if not _OVER.isdisjoint(words):
        return True
    for first, second in pairwise(words):
        if (first == "last" and second in _LAST) or (first == "a" and second in _YOUTH and "as" in words):
            return True
        if (first, second) in _PAIRS_OVER and (second != "was" or "when" in words):
            return True
    return False


def is_past(words: Sequence[str], index: int, *, over: bool = False, opens_compound: bool = False) -> bool:
    """Whether the "read" at ``index`` is the past or the participle.

    Args:
        words: of its clause, in lower case.
        index: where it stands.
        over: whether its sentence names a time that is over.
        opens_compound: whether a hyphen follows: "read-only".
    """
    if opens_compound:
        return False
    at = index - 1
    while at >= 0 and index - at <= _REACH and words[at] in _ADVERBS:
        at -= 1
    before = words[at] if at >= 0 else ""
    if before in _BEFORE_THE_BASE:
        return False
    if before in _PERFECT or before in _PASSIVE or (before == "well" and at == index - 1):
        return True
    if before == "and":
        return over or _follows_a_past(words, at)
    auxiliary = _auxiliary_of_question(words, at)
    if auxiliary:
        return auxiliary in _PERFECT
    if before in _SINGULAR:
        return True  # of the present it would be "reads"
    told = before in _SUBJECTS and not {"already", "ever", "just", "first", "recently"}.isdisjoint(
        words[at + 1 : index]
    )
    return told or (over and bool(before))


def _auxiliary_of_question(words: Sequence[str], at: int) -> str:
    """The auxiliary that stands before the subject that ends at ``at``: "did you", "have they", "does the boy"."""
    for place in range(at, max(at - _REACH, -1), -1):
        word = words[place]
        is_pronoun_between = place == at - 1 and words[at] in _PRONOUNS
        if word in _BEFORE_THE_BASE and word != "to":
            is_noun_between = place < at and words[place + 1] in _DETERMINERS
            return word if is_pronoun_between or is_noun_between else ""
        if word in _PERFECT and is_pronoun_between:
            return word
        if word in _ENDS_OF_REACH:
            return ""
    return ""


def _follows_a_past(words: Sequence[str], at: int) -> bool:
    """Whether the verb that "and" at ``at`` joins to is a past: "sat down and read", not "to sit down and read"."""
    for place in range(at - 1, max(at - _REACH_OF_AND, -1), -1):
        word = words[place]
        if word in _BEFORE_THE_BASE and word not in _PAST_OF_OTHERS:
            return False
        if word in _PAST_OF_OTHERS or (len(word) > 4 and word.endswith("ed") and not word.endswith("eed")):
            return place == 0 or words[place - 1] not in _BEFORE_THE_BASE
    return False
