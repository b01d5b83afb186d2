"""From ARPAbet, as the CMU Pronouncing Dictionary writes it, to the IPA that Piper's American voices know.

Those voices were trained on the phonemes of espeak-ng's accent ``en-us``, a narrower notation than ARPAbet's: it tells
apart several reduced vowels, writes the flap, the glottal stop and glides, and marks stress by rhythm. The rules here
were written after comparing both notations over the commonest words; none of them names a word.
``benchmarks/phonemes.py`` measures how close they come.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from text_backend.g2p.english.reduction import is_glottal, reduced_vowel
from text_backend.g2p.english.rhythm import join, spoken_stresses
from text_backend.g2p.english.site import Site
from text_backend.g2p.english.spelling import Phone, spelled_phones

CONSONANTS = {
    "B": "b",
    "CH": "tʃ",
    "D": "d",
    "DH": "ð",
    "F": "f",
    "G": "ɡ",
    "HH": "h",
    "JH": "dʒ",
    "K": "k",
    "L": "l",
    "M": "m",
    "N": "n",
    "NG": "ŋ",
    "P": "p",
    "R": "ɹ",
    "S": "s",
    "SH": "ʃ",
    "T": "t",
    "TH": "θ",
    "V": "v",
    "W": "w",
    "Y": "j",
    "Z": "z",
    "ZH": "ʒ",
}
VOWELS = {
    "AA": "ɑː",
    "AE": "æ",
    "AH": "ʌ",
    "AO": "ɔː",
    "AW": "aʊ",
    "AY": "aɪ",
    "EH": "ɛ",
    "ER": "ɜː",
    "EY": "eɪ",
    "IH": "ɪ",
    "IY": "iː",
    "OW": "oʊ",
    "OY": "ɔɪ",
    "UH": "ʊ",
    "UW": "uː",
}
_CROSS_AND_LOST = re.compile(r"oss(e[ds]|ing|'s)?|ost(s|ing|ly|ed)?")


def to_ipa(word: str, arpabet: Sequence[str]) -> str:
    """The IPA of one word, with stress marks before its vowels.

    Args:
        word: spelling in lower case; empty for names of letters, each of which keeps its stress.
        arpabet: phones such as ``["HH", "AH0", "L", "OW1"]``.
    """
    phones = spelled_phones(word, arpabet)
    _keep_one_primary(word, phones)
    sites = [Site(word, phones, index) for index in range(len(phones))]
    sounds = [_vowel(site) if site.phone.is_vowel else "" for site in sites]
    stresses = spoken_stresses(phones, sounds) if word else [max(phone.stress, 0) for phone in phones]
    for site in sites:
        if not site.phone.is_vowel:
            sounds[site.index] = _consonant(site, stresses)
    return join(phones, sounds, stresses)


def _keep_one_primary(word: str, phones: Sequence[Phone]) -> None:
    """Of several primary stresses the last stays ("IBM"), of those of "sixteen" the first."""
    primaries = [phone for phone in phones if phone.stress == 1]
    for phone in primaries[1:] if word.endswith(("teen", "teenth")) else primaries[:-1]:
        phone.stress = 2


def _vowel(site: Site) -> str:
    name, stress, after = site.phone.name, site.phone.stress, site.after
    if name == "ER":
        return ("ɚ" if stress == 0 else "ɜː") + ("ɹ" if after.is_vowel else "")
    if after.name == "R":
        return _vowel_before_r(site)
    if stress == 0 and name in ("AH", "IH", "IY", "AE", "AA", "UW"):
        return reduced_vowel(site)
    if name == "IY" and stress == 2 and not after.name:
        return reduced_vowel(site)
    if name == "AO" or (name == "AA" and stress > 0):
        return _open_o(site)
    if name in ("IH", "EH") and site.index == 0 and site.word.startswith("ex"):
        return "ɛ"
    return VOWELS[name]


def _open_o(site: Site) -> str:
    """The vowels of "dog" and "watch" (AA), "song" and "want" (short), "law" and "talk" (long)."""
    letter, rest, after, later = site.phone.letter, site.rest, site.after.name, site.later.name
    if letter == "a" and rest[1:2] in ("u", "w"):
        return "ɔ" if after == "L" and later == "T" else "ɔː"
    if letter == "a" and after in ("N", "L") and site.before.name == "W" and rest[1:3] != "ll":
        return "ɔ"
    if _CROSS_AND_LOST.fullmatch(rest):
        return "ɔ"
    if site.phone.name == "AA":
        return "ɑː"
    if letter == "o" and after in ("S", "F", "NG"):
        return "ɔ"
    if letter == "o" and after and rest[1:2] not in ("u", "a", "o", "h"):
        return "ɑː"
    if letter == "a" and after == "L" and not site.word.startswith("al"):
        return "ɔ" if later in ("T", "S", "R") else "ɔː"
    return "ɔː"


def _vowel_before_r(site: Site) -> str:
    name, stress, letter, later = site.phone.name, site.phone.stress, site.phone.letter, site.later
    if name in ("AY", "AW"):
        is_single_r = later.is_vowel and later.letter == site.rest[2:3]
        return VOWELS[name] + ("" if site.index == 0 and is_single_r else "ɚ")
    if name == "UH":
        return "ʊɹ" if later.is_vowel else "ʊ"
    if name == "IY" or (name == "IH" and stress > 0 and site.rest.startswith("er")):
        return "iə" if later.is_vowel and not site.word.endswith("ing") else "ɪ"
    if name in ("EH", "AE") and letter == "a" and stress > 0:
        return "æ" if name == "AE" or _is_short_a(site) else "ɛ"
    if name == "AH" and stress == 0:
        return "ɚ"
    return VOWELS[name]


def _is_short_a(site: Site) -> bool:
    """Whether the letter a before r is that of "carry" and "character", not that of "parent" and "various"."""
    if site.rest.startswith("arr"):
        return True
    syllables_after = sum(phone.is_vowel for phone in site.phones[site.index + 1 :])
    return (
        site.rest.startswith("ar")
        and site.later.name in ("AH", "IH")
        and site.later.stress == 0
        and syllables_after >= 2
    )


def _consonant(site: Site, stresses: Sequence[int]) -> str:
    name, before, after = site.phone.name, site.before, site.after
    if name == "T":
        return _letter_t(site, stresses)
    if name == "N":
        return _letter_n(site)
    if name == "R" and not after.is_vowel and _has_r_in_it(before):
        return ""
    if name == "Y" and site.phone.letter == "i" and before.name in ("N", "L", "D") and after.stress == 0:
        return "i"
    if name == "HH" and after.name == "W":
        return ""
    if name == "W" and site.phone.letter == "u" and before.stress == 0 and after.is_vowel:
        return ""  # "usual" has W for the glide after its u
    return CONSONANTS[name]


def _has_r_in_it(vowel: Phone) -> bool:
    return vowel.name in ("AY", "AW") or (vowel.name, vowel.stress) == ("AH", 0)


def _letter_t(site: Site, stresses: Sequence[int]) -> str:
    before, after = site.before, site.after
    if is_glottal(site):
        return "ʔ"
    if before.name == "R" and site.rest.startswith(("tant", "tanc")):
        return "t"
    is_flap = after.is_vowel and not stresses[site.index + 1] and (before.is_vowel or before.name == "R")
    return "ɾ" if is_flap else "t"


def _letter_n(site: Site) -> str:
    if site.before.name == "AH" and site.index >= 2 and is_glottal(site.move(-2)):
        return "n̩"
    if site.after.name in ("K", "G") and site.rest[1:2] in ("c", "k", "q", "g", "x"):
        return "ŋ"
    return "n"
