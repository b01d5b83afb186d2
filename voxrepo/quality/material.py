"""What two versions are asked to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxrepo.convert.proof_cases import texts_of
from voxrepo.quality.offline import OfflineFrontEnd, Phonemes
from voxrepo.repository.voice import VoiceSpec
from voxrepo.versions.texts import TEXTS, texts_for
from voxrepo_contract.stage import TextFrontendStage, read_stage


@dataclass(frozen=True)
class Line:
    """One text, as each side's front end reads it.

    Attributes:
        text: what is said; empty for made-up phonemes.
        reference: phonemes.
        candidate: phonemes; the same unless the versions differ in the front end.
    """

    text: str
    reference: Phonemes
    candidate: Phonemes

    @property
    def is_same(self) -> bool:
        """Whether both sides are given the same phonemes."""
        return self.reference.equals(self.candidate)


@dataclass(frozen=True)
class Material:
    """Texts, and where they are from."""

    lines: tuple[Line, ...]
    source: str


def read_material(spec: VoiceSpec, file: Path | None, reference: Path, candidate: Path) -> Material:
    """The texts of a file, or everyday texts of the voice's language, or else the made-up texts of proofs.

    Args:
        spec: of the voice.
        file: one text a line.
        reference: version folder of its front end.
        candidate: version folder of the other one's; may be the same.

    Raises:
        ConfigError: the file is wrong, or what a front end needs is not installed.
        InvalidArgument: a front end refuses a text.
    """
    if file is None and spec.language.split("-", maxsplit=1)[0].lower() not in TEXTS:
        return made_up(spec, reference)
    texts = texts_for(spec, file)
    source = f"{len(texts)} everyday texts" if file is None else f"{len(texts)} texts of {file.name}"
    return Material(tuple(read_texts(spec, texts, reference, candidate)), source)


def read_texts(spec: VoiceSpec, texts: Sequence[str], reference: Path, candidate: Path) -> list[Line]:
    """Texts as both front ends read them; the voice's speakers take turns.

    Raises:
        ConfigError: what a front end needs is not installed.
        InvalidArgument: a front end refuses a text.
    """
    sides: dict[Path, list[Phonemes]] = {}
    for folder in dict.fromkeys((reference, candidate)):
        front_end = OfflineFrontEnd(folder)
        try:
            sides[folder] = [
                front_end.phonemes(text, spec.speakers[number % len(spec.speakers)])
                for number, text in enumerate(texts)
            ]
        finally:
            front_end.close()
    return [Line(*each) for each in zip(texts, sides[reference], sides[candidate], strict=True)]


def made_up(spec: VoiceSpec, front_end: Path) -> Material:
    """Ten sequences of the voice's own phonemes, which need no front end; see :mod:`voxrepo.importers.proof_texts`.

    Raises:
        ConfigError: the phoneme table is missing or of another form.
    """
    stage = read_stage(front_end)
    assert isinstance(stage, TextFrontendStage)
    lines = []
    for text in texts_of(front_end, stage, len(spec.speakers)):
        ids = np.asarray(text.ids, np.int64)
        lengths = np.asarray([len(ids)], np.int32)
        phonemes = Phonemes(ids, lengths, np.zeros(1, np.int32), text.speaker_id)
        lines.append(Line("", phonemes, phonemes))
    return Material(tuple(lines), f"{len(lines)} made-up sequences of the voice's phonemes")
