"""The text front end of a voice of any make: a profile and the voice's table of symbols, or one that exists."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from voxrepo.importers.baker import END, SILENCE
from voxrepo.importers.piper_config import BOS, EOS, PAD
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.stage import (
    STAGE_FILE,
    FileEntry,
    Interface,
    TextFrontendOptions,
    TextFrontendStage,
    read_stage,
    sha256_of,
    verify_files,
    write_stage,
)

MAX_FILE_BYTES = 4 << 20
_ESPEAK = "espeak:"


@dataclass(frozen=True)
class Profile:
    """How text becomes symbols."""

    language: str
    phonemizer: Literal["cmudict", "espeak", "pinyin"]
    phonemizer_voice: str


PROFILES = {
    "en-us": Profile("en-US", "cmudict", "en-us"),
    "en-us-espeak": Profile("en-US", "espeak", "en-us"),
    "zh-cn": Profile("zh-CN", "pinyin", ""),
}


@dataclass(frozen=True)
class Marks:
    """Symbols around those of a segment; ``None`` for what the table suggests.

    Attributes:
        bos: open a segment.
        eos: close it.
        pad: after each symbol; empty for none.
    """

    bos: tuple[str, ...] | None = None
    eos: tuple[str, ...] | None = None
    pad: str | None = None


@dataclass(frozen=True)
class FrontEnd:
    """A front end that was written.

    Attributes:
        stage: its description.
        highest_id: that it can send.
        notes: on what was taken for granted.
    """

    stage: TextFrontendStage
    highest_id: int
    notes: tuple[str, ...] = ()


def read_tokens(file: Path) -> dict[str, list[int]]:
    """A table of symbols: JSON or YAML as Piper, TensorFlowTTS, Coqui or ESPnet write it, or a text file.

    Text files have one symbol a line, alone (its number is that of the line, from 0) or followed by its number, as
    icefall and sherpa write them; the symbol may be a blank.

    Raises:
        ConfigError: the file cannot be read, or is no such table; with the line.
    """
    try:
        raw = file.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise ConfigError(f"{len(raw)} bytes; the limit is {MAX_FILE_BYTES}", file=file)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    except UnicodeDecodeError as error:
        raise ConfigError("not valid UTF-8; save the table as UTF-8", file=file) from error
    if file.suffix.lower() in {".json", ".yaml", ".yml"}:
        table = _table_of(_parsed(text, file))
        if table is None:
            raise ConfigError(
                'holds no table of symbols; known are {"phoneme_id_map": {symbol: [ids]}}, {"symbol_to_id": {symbol: '
                'id}}, {"token_list": [symbols]}, a plain {symbol: id} and a plain list',
                file=file,
            )
    else:
        table = _table_of_lines(text, file)
    if len(table) < 2:
        raise ConfigError(f"holds {len(table)} symbols; a voice has more", file=file)
    return table


def _parsed(text: str, file: Path) -> Any:
    try:
        return json.loads(text) if file.suffix.lower() == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"cannot be parsed: {error}", file=file) from error


def _table_of(data: Any) -> dict[str, list[int]] | None:
    if isinstance(data, list) and data and all(isinstance(symbol, str) and symbol for symbol in data):
        return {symbol: [number] for number, symbol in reversed(list(enumerate(data)))}
    if not isinstance(data, dict):
        return None
    for key in ("phoneme_id_map", "symbol_to_id", "token_to_id", "vocab", "token_list", "phonemes"):
        if key in data:
            return _table_of(data[key])
    table: dict[str, list[int]] = {}
    for symbol, ids in data.items():
        listed = ids if isinstance(ids, list) else [ids]
        if not isinstance(symbol, str) or not symbol or not listed:
            return None
        if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in listed):
            return None
        table[symbol] = listed
    return table or None


def _table_of_lines(text: str, file: Path) -> dict[str, list[int]]:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    numbered = [re.fullmatch(r"(.+?)[ \t]+([0-9]{1,7})", line) for line in lines]
    numbered = [
        match or re.fullmatch(r"([ \t])([0-9]{1,7})", line) for match, line in zip(numbered, lines, strict=True)
    ]
    has_numbers = sum(match is not None for match in numbered) > len(lines) / 2
    table: dict[str, list[int]] = {}
    for number, (line, match) in enumerate(zip(lines, numbered, strict=True)):
        if has_numbers and match is None:
            raise ConfigError(f"{line!r} is no symbol followed by its number", file=file, line=number + 1)
        symbol, value = (match.group(1), int(match.group(2))) if has_numbers and match else (line, number)
        if not symbol or symbol in table:
            what = "an empty line" if not symbol else f"the symbol {symbol!r} a second time"
            raise ConfigError(f"holds {what}", file=file, line=number + 1)
        table[symbol] = [value]
    return table


def find_profile(name: str, language: str | None) -> Profile:
    """The profile of that name.

    Raises:
        InvalidArgument: there is none.
    """
    if name.startswith(_ESPEAK) and len(name) > len(_ESPEAK):
        if language is None:
            raise InvalidArgument(f"--frontend {name}: say with --language which language it is, e.g. de-DE")
        return Profile(language, "espeak", name.removeprefix(_ESPEAK))
    profile = PROFILES.get(name.lower())
    if profile is None:
        raise InvalidArgument(
            f"--frontend {name!r} is no folder of a text front end and no profile; profiles: {', '.join(PROFILES)}, "
            f"{_ESPEAK}VOICE"
        )
    return profile


def _marks(table: Mapping[str, Any], given: Marks, file: Path) -> tuple[list[str], list[str], str, tuple[str, ...]]:
    """(bos, eos, pad, notes)."""
    if {PAD, BOS, EOS} <= table.keys():
        bos, eos, pad, made = [BOS], [EOS], PAD, "as Piper's voices"
    elif {SILENCE, END} <= table.keys():
        bos, eos, pad, made = [SILENCE], [SILENCE, END], "", "as Baker voices"
    else:
        bos, eos, pad, made = [], [], "", "nothing around the symbols"
    notes = []
    if given == Marks():
        notes.append(
            f"segments are framed by {made}: opened by {bos}, closed by {eos}, {pad!r} after each symbol; if the model "
            "was trained otherwise, say so with --bos, --eos and --pad"
        )
    bos = bos if given.bos is None else list(given.bos)
    eos = eos if given.eos is None else list(given.eos)
    pad = pad if given.pad is None else given.pad
    for flag, symbols in (("--bos", bos), ("--eos", eos), ("--pad", [pad] if pad else [])):
        for symbol in symbols:
            if symbol not in table:
                raise ConfigError(f"{flag} {symbol!r} is not in the table of symbols", file=file)
    return bos, eos, pad, tuple(notes)


def write_front_end(
    folder: Path,
    frontend: str,
    tokens: Path | None,
    marks: Marks,
    language: str | None,
    speakers: list[str],
    provenance: dict[str, Any],
) -> FrontEnd:
    """Write the stage ``text_frontend`` into an empty folder.

    Args:
        folder: that is written to.
        frontend: name of a profile, or folder of a version of a text front end, which is copied.
        tokens: table of symbols, with a profile.
        marks: around the symbols of a segment, with a profile.
        language: BCP 47 tag, for profiles without one.
        speakers: names in the order of their ids.
        provenance: of the voice.

    Raises:
        InvalidArgument: there is no such profile, or the arguments do not go together.
        ConfigError: a file is wrong.
    """
    existing = Path(frontend)
    if (existing / STAGE_FILE).is_file():
        if tokens is not None or marks != Marks():
            raise InvalidArgument(
                f"--frontend {frontend}: the front end has its own table; leave --tokens and marks out"
            )
        return _copied(existing, folder, speakers, provenance)
    profile = find_profile(frontend, language)
    if tokens is None:
        raise InvalidArgument(f"--frontend {frontend}: give the voice's table of symbols with --tokens FILE")
    table = read_tokens(tokens)
    bos, eos, pad, notes = _marks(table, marks, tokens)
    # padding that is put nowhere is no sound
    spoken = {symbol: ids for symbol, ids in table.items() if pad or symbol.strip("<>").lower() not in {"pad", "blank"}}
    inventory = {"phonemes": spoken, "bos": bos, "eos": eos, "pad": pad}
    file = folder / "inventory.json"
    file.write_text(
        json.dumps(inventory, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n",
        encoding="utf-8",
        newline="\n",
    )
    sha256 = sha256_of(file)
    stage = TextFrontendStage(
        stage="text_frontend",
        program="text_frontend",
        options=TextFrontendOptions(
            language=profile.language,
            phonemizer=profile.phonemizer,
            phonemizer_voice=profile.phonemizer_voice,
            speakers=speakers,
        ),
        files={"inventory": FileEntry(file=file.name, sha256=sha256)},
        interface=Interface(inventory_sha256=sha256, speakers=len(speakers)),
        provenance=provenance,
    )
    write_stage(folder, stage)
    return FrontEnd(stage, _highest(spoken), notes)


def _copied(source: Path, folder: Path, speakers: list[str], provenance: dict[str, Any]) -> FrontEnd:
    stage = read_stage(source)
    if not isinstance(stage, TextFrontendStage) or "inventory" not in stage.files:
        raise ConfigError(f"program: is {stage.program!r}; a text front end is wanted", file=source)
    verify_files(source, stage)
    for entry in stage.files.values():
        shutil.copyfile(source / entry.file, folder / entry.file)
    table = json.loads((folder / stage.files["inventory"].file).read_text(encoding="utf-8"))["phonemes"]
    options = stage.options.model_copy(update={"speakers": speakers})
    interface = stage.interface.model_copy(update={"speakers": len(speakers)})
    note = {**provenance, "text_frontend": stage.provenance.get("source", "a folder of the user")}
    made = stage.model_copy(update={"options": options, "interface": interface, "provenance": note})
    write_stage(folder, made)
    return FrontEnd(made, _highest(table))


def _highest(table: Mapping[str, list[int]]) -> int:
    return max(max(ids) for ids in table.values())
