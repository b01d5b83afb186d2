"""Unstressed vowels: which of espeak-ng's several reduced ones stands for which letter.

ARPAbet writes most of them AH0, IH0 or IY0. In the notation that the voices were trained on they are told apart by
spelling and place: "about" (turned a), "sofa" (schwa), "rapid" (small i), "quality" (barred i), "city" (i).
"""

from __future__ import annotations

from text_backend.g2p.english.site import NOTHING, Site

_SCHWA = "ə"
_TURNED_A = "ɐ"
_BARRED_I = "ᵻ"
_SMALL_I = "ɪ"

_GLIDING = ("AY", "IY", "OW", "UW", "AW")
_HUSHING = ("SH", "CH", "JH", "ZH")
_PREFIXES_BEFORE_A = ("dis", "un", "in", "re", "mis", "non")
_PREFIXES_WITH_E = ("re", "de", "be", "se", "ne", "pre", "ge")
_THEIR_EXCEPTIONS = ("det", "dev", "des", "pred", "prec", "presi", "beg", "bec")
_PREFIXES_WITH_I = ("div", "dim", "dip", "dil", "dir")


def reduced_vowel(site: Site) -> str:
    """The sound of an unstressed AH, IH, IY, AE, AA or UW that no R follows."""
    name = site.phone.name
    if name == "AH":
        return _central(site)
    if name == "IH":
        return _front(site)
    if name == "IY":
        return _long_i(site)
    if name == "UW":
        return "uː"
    if name == "AE":
        return _TURNED_A if site.index == 0 and site.after.name not in ("N", "M") else "æ"
    return _SCHWA if site.phone.letter == "a" and site.after is NOTHING else "ɑː"


def is_glottal(site: Site) -> bool:
    """Whether the T here and the vowel and N after it are the end of "written", "cotton" or "certain"."""
    phone, before, vowel, rest = site.phone, site.before, site.after, site.at(3)
    if phone.name != "T" or phone.at < 0 or (vowel.name, vowel.stress) != ("AH", 0) or site.later.name != "N":
        return False
    if not (before.is_vowel and before.stress > 0) and before.name != "R":
        return False
    if rest.is_vowel and rest.name != "IH":
        return False
    ending = site.word[phone.at + 1 :].lstrip("t")
    doubled = "tt" in site.word[max(phone.at - 1, 0) : phone.at + 2]
    return ending.startswith(("en", "ain")) or (doubled and ending.startswith(("on", "an")))


def _central(site: Site) -> str:
    phone, before, after = site.phone, site.before, site.after
    if before.name == "T" and is_glottal(site.move(-1)):
        return ""
    if before.name == "K" and after.name == "L" and site.word.endswith("ically"):
        return ""
    if phone.letter == "a":
        return _letter_a(site)
    if phone.letter == "u":
        return _letter_u(site)
    if phone.letter in ("e", "i", "y"):
        return _SCHWA if _is_schwa_of_e_or_i(site) else _front(site)
    if not phone.letter and after.name == "W" and after.letter == "u":
        return "uː"
    is_syllabic_l = not phone.letter and after.name == "L" and site.later.is_vowel and before.name not in ("", "R")
    return "" if is_syllabic_l and site.word.endswith(("ing", "er", "ers")) else _SCHWA


def _letter_a(site: Site) -> str:
    after, following = site.after, site.next_stress
    if site.index == 0:
        return _TURNED_A
    if (after.name == "JH" and site.rest.startswith("age")) or (after.name == "N" and site.rest.startswith("ain")):
        return _SMALL_I
    if following == 1:
        is_weak = site.before.name == "M" and after.name not in ("S", "T")
        prefixed = site.word[: site.phone.at] in _PREFIXES_BEFORE_A
        return _TURNED_A if prefixed or (site.is_first_vowel and not is_weak) else _SCHWA
    between = following == 2 and site.previous_stress == 1
    if between and after.name in ("L", "N", "S", "G", "D", "V", "M"):
        return _TURNED_A if after.letter == site.rest[1:2] and site.rest[1:3].isalpha() else _SCHWA
    return _SCHWA


def _letter_u(site: Site) -> str:
    before, after = site.before.name, site.after.name
    if before == "Y":
        return "ʊ" if after in ("L", "P") else "uː"
    if site.index == 0:
        return "ʌ"
    is_sub = before == "S" and after in ("B", "N") and site.word.startswith(("sub", "sun"))
    return "ʌ" if is_sub and site.next_stress == 1 else _SCHWA


def _is_schwa_of_e_or_i(site: Site) -> bool:
    """Whether AH0 spelled with e, i or y is a schwa; otherwise it sounds as IH0 does."""
    letter, rest, before, after = site.phone.letter, site.rest, site.before.name, site.after
    if before in _HUSHING and letter != "y" and rest[1:2] in ("o", "a", "u"):
        return True
    if letter == "i":
        return rest[1:2] in ("o", "a", "u", "e") or rest == "il" or before in _GLIDING
    if letter == "e" and not rest.startswith("est"):
        return _is_schwa_of_e(site)
    return before in _GLIDING and not (letter == "e" and rest.startswith("est") and not after.is_vowel)


def _is_schwa_of_e(site: Site) -> bool:
    rest, before, after = site.rest, site.before.name, site.after
    if not after.name or after.name == "M" or rest.startswith(("ess", "eless", "edge")):
        return True
    if after.name == "N":
        return not (before == "M" and rest == "en")
    if after.name == "L":
        return not (site.later.is_vowel and site.is_first_vowel and before in ("", "S", "R"))
    if after.is_vowel or before in _GLIDING:
        return True
    if site.is_first_vowel:
        return False
    if site.later.name == "IY":
        return True
    return after.name == "S" and site.later.name != "T" and site.word[site.phone.at - 1] not in ("v", "r")


def _front(site: Site) -> str:
    if site.phone.letter == "e":
        if site.index == 0:
            return _initial_e(site)
        return _BARRED_I if _is_barred_e(site) else _SMALL_I
    return _BARRED_I if site.phone.letter in ("i", "y") and _is_barred_i(site) else _SMALL_I


def _is_barred_e(site: Site) -> bool:
    rest, after, later = site.rest, site.after.name, site.later.name
    bare = rest.removesuffix("'s")
    if (bare == "ed" and site.before.name in ("T", "D")) or bare == "es" or rest == "e's":
        return True
    if site.is_first_vowel and site.phone.at <= 2 and site.word.startswith(_PREFIXES_WITH_E):
        return not site.word.startswith(_THEIR_EXCEPTIONS)
    is_ending = rest.startswith("es") or (rest.startswith("ed") and site.before.name in ("T", "D"))
    if is_ending and after in ("Z", "D") and later in ("IH", "AH", "L", ""):
        return True
    return after == "P" or (after == "Z" and later == "EH")


def _is_barred_i(site: Site) -> bool:
    after, later, rest = site.after.name, site.later, site.rest
    if (after in ("T", "L") and later.name == "IY") or (after == "F" and later.name == "AY"):
        return True
    if rest.startswith("itiv") or (after == "B" and rest.startswith("ibl")):
        return True
    if later.name == "EY" and later.stress > 0 and site.previous_stress != 2:
        return True
    return site.is_first_vowel and site.before.name == "D" and site.word.startswith(_PREFIXES_WITH_I)


def _initial_e(site: Site) -> str:
    after, later = site.after.name, site.later
    if site.word.startswith("ex") or (after == "N" and not later.is_vowel):
        return "ɛ"
    if after == "M":
        return "ɛ" if later.name in ("B", "P") else _SMALL_I
    return _BARRED_I if after == "L" and site.word[1:3] != "ll" else _SMALL_I


def _long_i(site: Site) -> str:
    after, letter = site.after, site.phone.letter
    if not after.name:
        return "iː" if site.word.endswith("ee") else "i"
    if after.is_vowel:
        return _i_before_vowel(site)
    if letter == "e" and site.is_first_vowel:
        if site.word.startswith(_PREFIXES_WITH_E):
            return _BARRED_I
        return _initial_e(site) if site.index == 0 else "iː"
    if after.name in ("Z", "D") and site.later is NOTHING:
        return "i"
    return _SMALL_I if letter in ("y", "i") else "iː"


def _i_before_vowel(site: Site) -> str:
    after, letter = site.after, site.phone.letter
    if letter == "e" and site.is_first_vowel:
        return "iː" if after.stress > 0 and site.word.startswith("crea") else _SMALL_I
    if after.name == "AH":
        is_adjective = site.later.name == "L" and site.word.endswith(("al", "ally", "als"))
        long_er = site.before.name == "R" and site.at(-2).name in ("IH", "IY") and site.at(-2).letter == "e"
        return _SMALL_I if is_adjective or long_er else "i"
    return "i" if after.name == "ER" or (after.name == "IH" and letter == "y") else _SMALL_I
