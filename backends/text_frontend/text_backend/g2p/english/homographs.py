"""Words with one spelling and two sounds: which one is meant, from the words beside it."""

from __future__ import annotations

from collections.abc import Sequence


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_BEFORE_A_VERB = _words(
    "to will would can could should may might must shall cannot not don't doesn't didn't won't can't couldn't "
    "shouldn't wouldn't i you we they who let's please i'll you'll we'll they'll he'll she'll it'll never always "
    "they'd we'd i'd you'd he'd she'd"
)
_BEFORE_AN_ADJECTIVE = _words("a an the this that is are was were be been very so too more most how as")

_VERB, _OTHER = 0, 1

# verb first, noun or adjective second
_PAIRS: dict[str, tuple[str, str]] = {
    "abuse": ("AH0 B Y UW1 Z", "AH0 B Y UW1 S"),
    "bow": ("B AW1", "B OW1"),
    "close": ("K L OW1 Z", "K L OW1 S"),
    "excuse": ("IH0 K S K Y UW1 Z", "IH0 K S K Y UW1 S"),
    "house": ("HH AW1 Z", "HH AW1 S"),
    "live": ("L IH1 V", "L IH1 V"),
    "lives": ("L IH1 V Z", "L AY1 V Z"),
    "lead": ("L IY1 D", "L IY1 D"),
    "misuse": ("M IH0 S Y UW1 Z", "M IH0 S Y UW1 S"),
    "tear": ("T EH1 R", "T IH1 R"),
    "tears": ("T EH1 R Z", "T IH1 R Z"),
    "use": ("Y UW1 Z", "Y UW1 S"),
    "uses": ("Y UW1 Z IH0 Z", "Y UW1 S IH0 Z"),
    "wind": ("W AY1 N D", "W IH1 N D"),
    "winds": ("W AY1 N D Z", "W IH1 N D Z"),
    "wound": ("W UW1 N D", "W UW1 N D"),
}
_STRESS_SHIFTS = _words(
    "abstract addict ally combat compact compound conduct conflict console construct content contest contract "
    "contrast convert decrease defect desert digest discharge discount escort exploit export extract impact import "
    "increase insert insult object perfect permit present produce progress project protest rebel recall record refund "
    "refuse reject reset subject survey suspect transfer transform transport update upgrade upset"
)
_VERBS_ABOVE_ALL = _words("produce convert refuse reject transform upset construct exploit recall reset")
_ATE_WORDS = _words(
    "affiliate aggregate alternate animate appropriate approximate articulate associate coordinate degenerate delegate "
    "deliberate duplicate elaborate estimate graduate initiate intimate moderate separate subordinate"
)
_PREPOSITIONS_AFTER_USE = _words("the a an it this these those that your my his her our their them all")
_PERFORMED = _words(
    "music show shows concert concerts broadcast stream streaming performance performances album tv band"
)
_FISH = _words("sea striped largemouth smallmouth black white rock")
_WHERE_ONE_LIVES = _words(
    "in at on with near here there alone by under next abroad together nearby upstairs downstairs for"
)
_OWNERS = _words(
    "my your our their his her many several nine two three four five these those all human save saved other"
)
_OBJECTS = _words("the your my his her its our their this that these those it them all")


def choose(word: str, variants: Sequence[Sequence[str]], before: str, after: str, *, past: bool = False) -> list[str]:
    """The variant of ``word`` that fits between its neighbours.

    Args:
        word: lower case.
        variants: what the dictionary lists, the commonest first; at least one.
        before: the word before, empty at a clause's beginning.
        after: the word after, empty at its end.
        past: whether it is the past of a verb, see :mod:`text_backend.g2p.english.past_read`.
    """
    if word == "read":
        return ["R", "EH1", "D"] if past else ["R", "IY1", "D"]
    if word == "live" and (before in _BEFORE_AN_ADJECTIVE or before == "broadcast"):
        return ["L", "AY1", "V"]
    if word == "live" and after in _PERFORMED:
        return ["L", "AY1", "V"]
    if word == "bass":
        is_fish = before in _FISH or after == "fishing"
        return ["B", "AE1", "S"] if is_fish else ["B", "EY1", "S"]
    if word == "minute" and after in ("detail", "details", "amount", "amounts", "quantities", "traces", "particles"):
        return ["M", "AY0", "N", "UW1", "T"]
    if word == "lead" and after in ("pipe", "pipes", "paint", "poisoning", "pencil", "shot", "acid"):
        return ["L", "EH1", "D"]
    if word in ("close", "tear") and (after in _OBJECTS or (word == "tear" and after in ("up", "down", "apart"))):
        return _PAIRS[word][_VERB].split()
    if word == "wound" and (after in _OBJECTS or after in ("a", "up", "down", "around")):
        return ["W", "AW1", "N", "D"]
    pair = _PAIRS.get(word)
    if pair is not None:
        is_verb = before in _BEFORE_A_VERB or (word == "use" and after in _PREPOSITIONS_AFTER_USE)
        is_verb = is_verb or (word == "lives" and after in _WHERE_ONE_LIVES and before not in _OWNERS)
        return pair[_VERB if is_verb else _OTHER].split()
    base = word[:-1] if word.endswith("s") else word
    if base in _STRESS_SHIFTS:
        early, late = _by_stress(variants)
        is_command = not before and after in _OBJECTS  # "Record the meeting."
        is_verb = before in _BEFORE_A_VERB or base in _VERBS_ABOVE_ALL or is_command
        return (late if is_verb else early) or list(variants[0])
    if word in _ATE_WORDS:
        full, reduced = _by_ate(variants)
        return (full if before in _BEFORE_A_VERB else reduced) or list(variants[0])
    return list(variants[0])


def _by_stress(variants: Sequence[Sequence[str]]) -> tuple[list[str] | None, list[str] | None]:
    """The noun ("RE-cord") and the verb ("re-CORD") of words of two syllables, where the variants have both."""
    early: list[str] | None = None
    late: list[str] | None = None
    for variant in variants:
        stresses = [phone[-1] for phone in variant if phone[-1].isdigit()]
        if len(stresses) != 2 or stresses.count("1") != 1:
            continue
        if stresses[0] == "1":
            early = early or list(variant)
        else:
            late = late or list(variant)
    return early, late


def _by_ate(variants: Sequence[Sequence[str]]) -> tuple[list[str] | None, list[str] | None]:
    """The verb and the adjective of words such as "separate"."""
    full = next((list(variant) for variant in variants if variant[-2][:2] == "EY"), None)
    reduced = next((list(variant) for variant in variants if variant[-2] in ("AH0", "IH0")), None)
    return full, reduced
