"""``VOICE[.stage[@version]]`` on the command line, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voxrepo_contract.errors import InvalidArgument, NotFound
from voxrepo_contract.names import VOICE_STAGES, is_model_name, is_version_name, stage_model_name


@dataclass(frozen=True)
class Ref:
    """What was named. A version belongs to a stage.

    Attributes:
        voice: name of the voice.
        stage: None for the whole voice.
        version: None if none was given.
    """

    voice: str
    stage: str | None = None
    version: int | None = None


@dataclass(frozen=True)
class StageRef:
    """A stage of a voice."""

    voice: str
    stage: str

    @property
    def model(self) -> str:
        """The model that serves it."""
        return stage_model_name(self.voice, self.stage)


def parse_ref(text: str, voices: Sequence[str]) -> Ref:
    """Take ``VOICE[.stage[@version]]`` apart.

    Args:
        text: as given.
        voices: names of the voices that exist; a name may itself contain a dot.

    Raises:
        InvalidArgument: it is not of that form.
        NotFound: there is no such voice or stage.
    """
    name, at, number = text.partition("@")
    if not is_model_name(name) or (at and not is_version_name(number)):
        raise InvalidArgument(
            f"{text!r} is none of VOICE, VOICE.stage and VOICE.stage@version, such as en-joe.vocoder@2"
        )
    if name in voices:
        if at:
            raise InvalidArgument(f"{text!r}: a version belongs to a stage; write {name}.vocoder@{number}, say")
        return Ref(name)
    voice, dot, stage = name.rpartition(".")
    if not dot or voice not in voices:
        raise NotFound(f"there is no voice {voice or name!r} here; there are: {', '.join(voices) or 'none'}")
    if stage not in VOICE_STAGES:
        raise NotFound(f"{text!r}: {stage!r} is no stage of a voice; there are {', '.join(VOICE_STAGES)}")
    return Ref(voice, stage, int(number) if at else None)


def parse_stage(text: str, voices: Sequence[str]) -> StageRef:
    """Take ``VOICE.stage`` apart.

    Raises:
        InvalidArgument, NotFound: it is something else, or not there.
    """
    ref = parse_ref(text, voices)
    if ref.stage is None or ref.version is not None:
        raise InvalidArgument(f"{text!r}: name a stage without a version, such as {ref.voice}.{ref.stage or 'vocoder'}")
    return StageRef(ref.voice, ref.stage)


def parse_version(text: str, voices: Sequence[str]) -> tuple[StageRef, int]:
    """Take ``VOICE.stage@version`` apart.

    Raises:
        InvalidArgument, NotFound: it is something else, or not there.
    """
    ref = parse_ref(text, voices)
    if ref.stage is None or ref.version is None:
        raise InvalidArgument(f"{text!r}: name a version of a stage, such as {ref.voice}.{ref.stage or 'vocoder'}@1")
    return StageRef(ref.voice, ref.stage), ref.version


def parse_pins(pins: Sequence[str]) -> dict[str, int]:
    """Take ``stage=version`` apart.

    Raises:
        InvalidArgument: one is something else, or a stage is given twice.
    """
    versions: dict[str, int] = {}
    for pin in pins:
        stage, equals, number = pin.partition("=")
        if not equals or stage not in VOICE_STAGES or not is_version_name(number) or stage in versions:
            raise InvalidArgument(f"{pin!r}: write each stage once, as stage=version, such as acoustic=2")
        versions[stage] = int(number)
    return versions
