"""A Piper voice's configuration, the ``.onnx.json`` beside its graph."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.tensors import NOISE_SCALE_MAX

PAD, BOS, EOS = "_", "^", "$"
"""Symbols that Piper puts around phonemes: padding between ids, start and end of a sentence."""

MAX_FILE_BYTES = 4 * 1024 * 1024

_LANGUAGE_CODE = re.compile(r"\A([A-Za-z]{2,3})(?:[-_]([A-Za-z]{2}|[0-9]{3}))?\Z")


class _Section(BaseModel):
    # the file holds more than an import needs, and exporters add keys
    model_config = ConfigDict(extra="ignore", frozen=True)


PhonemizerName = Literal["espeak", "cmudict"]


class Audio(_Section):
    """The ``audio`` section."""

    sample_rate: Annotated[int, Field(ge=4000, le=192_000)]


class Espeak(_Section):
    """The ``espeak`` section."""

    voice: Annotated[str, Field(min_length=1)]


class Inference(_Section):
    """The ``inference`` section; the defaults are Piper's own for files that leave them out."""

    noise_scale: Annotated[float, Field(ge=0, le=NOISE_SCALE_MAX)] = 0.667
    length_scale: Annotated[float, Field(gt=0, le=4)] = 1.0
    noise_w: Annotated[float, Field(ge=0, le=NOISE_SCALE_MAX)] = 0.8


class Language(_Section):
    """The ``language`` section."""

    code: str


class PiperConfig(_Section):
    """What an import needs of the configuration.

    Attributes:
        phoneme_id_map: ids of each phoneme symbol.
        num_speakers: speakers the graph was trained for.
        speaker_id_map: speaker ids by name; may be empty.
        hop_length: samples per frame, if the file says so.
    """

    audio: Audio
    espeak: Espeak
    inference: Inference = Inference()
    language: Language | None = None
    phoneme_type: Literal["espeak"] = "espeak"
    phoneme_id_map: dict[str, list[Annotated[int, Field(ge=0)]]]
    num_speakers: Annotated[int, Field(ge=1)]
    speaker_id_map: dict[str, int] = Field(default_factory=dict)
    default_speaker_id: Annotated[int, Field(ge=0)] = 0
    hop_length: Annotated[int, Field(ge=1)] | None = None
    vowel_clusters: list[list[str]] | None = None

    def speakers(self) -> list[str]:
        """Speaker names in the order of their ids.

        A single-speaker voice has ``default``; an id without a name goes by its number, as in Piper itself.
        """
        if self.num_speakers == 1:
            return ["default"]
        names = {number: name for name, number in self.speaker_id_map.items()}
        return [names.get(number, str(number)) for number in range(self.num_speakers)]

    def inventory(self) -> str:
        """The phoneme table as canonical JSON: keys sorted, no spaces, UTF-8 as it is, one newline at the end."""
        table = {"phonemes": self.phoneme_id_map, "bos": BOS, "eos": EOS, "pad": PAD}
        return json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"


def language_tag(config: PiperConfig, given: str | None, file: Path) -> str:
    """The voice's BCP 47 tag: ``given``, or made from the configuration's ``language.code``.

    Raises:
        ConfigError: neither is there, or it is not a language with an optional region.
    """
    code = given if given is not None else (config.language.code if config.language is not None else None)
    if code is None:
        raise ConfigError(
            "language.code is missing; say which language the voice speaks, e.g. language en-US", file=file
        )
    match = _LANGUAGE_CODE.match(code)
    if match is None:
        raise ConfigError(
            f"language {code!r} is not a language code with an optional region; give one like en-US", file=file
        )
    language, region = match.groups()
    return f"{language.lower()}-{region.upper()}" if region else language.lower()


def _check(config: PiperConfig, file: Path) -> None:
    for symbol, role in ((PAD, "padding"), (BOS, "start of sentence"), (EOS, "end of sentence")):
        if not config.phoneme_id_map.get(symbol):
            raise ConfigError(f"phoneme_id_map: the symbol {symbol!r} ({role}) is missing", file=file)
    if not any(symbol not in {PAD, BOS, EOS} and ids for symbol, ids in config.phoneme_id_map.items()):
        raise ConfigError("phoneme_id_map: there is no phoneme besides the control symbols", file=file)
    if config.vowel_clusters:
        raise ConfigError("vowel_clusters: voices that merge vowels into one phoneme are not supported yet", file=file)
    if config.default_speaker_id >= config.num_speakers:
        raise ConfigError(
            f"default_speaker_id is {config.default_speaker_id}, but num_speakers is {config.num_speakers}", file=file
        )
    names: dict[int, str] = {}
    for name, number in config.speaker_id_map.items():
        if not 0 <= number < config.num_speakers:
            raise ConfigError(
                f"speaker_id_map: {name!r} has the id {number}, but num_speakers is {config.num_speakers}", file=file
            )
        if number in names:
            raise ConfigError(f"speaker_id_map: {names[number]!r} and {name!r} have the same id {number}", file=file)
        names[number] = name
    speakers = config.speakers()
    if len(set(speakers)) != len(speakers):
        raise ConfigError("speaker_id_map: a name is also the number of a speaker without a name", file=file)


def _describe(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    if error["type"] == "missing":
        return f"{where}: required key is missing; is this the .onnx.json of a Piper voice?"
    if error["loc"] == ("phoneme_type",):
        return (
            f"phoneme_type is {error['input']!r}; only voices trained on espeak phonemes can be imported, "
            "as the text front end has no other phonemizer"
        )
    return f"{where}: {error['msg']} (got {str(error.get('input'))[:80]!r})"


def default_phonemizer(config: PiperConfig, tag: str) -> PhonemizerName:
    """The phonemizer for a voice of the language ``tag``: without GPL where there is one that reads well enough."""
    is_american = tag.partition("-")[0].lower() == "en" and config.espeak.voice.lower() == "en-us"
    return "cmudict" if is_american else "espeak"


def read_config(file: Path) -> PiperConfig:
    """Read and check a Piper configuration.

    Raises:
        ConfigError: the file is missing, not JSON, or not the configuration of a Piper voice on espeak phonemes.
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError("the file is missing; a Piper voice needs its .onnx.json", file=file) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{len(raw)} bytes; the limit is {MAX_FILE_BYTES}", file=file)
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"not valid JSON: {error.msg}", file=file, line=error.lineno) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid JSON: {error}", file=file) from error
    if not isinstance(data, dict):
        raise ConfigError("the file must hold a JSON object", file=file, line=1)
    try:
        config = PiperConfig.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(_describe(problems[0]) + more, file=file) from error
    _check(config, file)
    return config
