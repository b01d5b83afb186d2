"""A front end from the files of a stage version."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from text_backend.frontend import FrontEnd
from text_backend.g2p.base import G2P
from text_backend.g2p.clauses import ClauseG2P
from text_backend.g2p.mandarin import MandarinG2P
from text_backend.inventory import read_inventory
from text_backend.languages import find_language
from text_backend.languages.base import Language
from text_backend.lexicon import Lexicon, Replacements, read_lexicon, read_replacements
from text_backend.phonemizers import RunningPhonemizer, find_phonemizer
from text_backend.substitutes import Substitutes, read_table
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import STAGE_FILE, TextFrontendOptions, TextFrontendStage, read_stage, verify_files

_WARM_UP = {
    "en": "Hello. This is a first sentence, spoken to no one.",
    "zh": "你好，今天是2024年1月2日，有3个人说hello。",
}
_MANDARIN = "zh"


@dataclass(frozen=True)
class Built:
    """A front end and what it holds.

    Attributes:
        front_end: ready to run.
        description: one line for the log.
        phonemizer: what reads sentences for it, if the language needs one.
        close: ends it.
    """

    front_end: FrontEnd
    description: str
    phonemizer: RunningPhonemizer | None
    close: Callable[[], None]


def build_front_end(version_dir: Path, phonemizer_name: str | None = None) -> Built:
    """Read a version's files, start its phonemizer and run a first text through it.

    Args:
        version_dir: directory with ``stage.yaml``.
        phonemizer_name: of another phonemizer than the stage names, to compare them.

    Raises:
        ConfigError: with file, line and reason.
        Unavailable: the phonemizer did not start.
    """
    stage = read_stage(version_dir)
    if not isinstance(stage, TextFrontendStage):
        raise ConfigError(
            f"program: the backend text_frontend cannot run {stage.program!r}", file=version_dir / STAGE_FILE
        )
    if phonemizer_name is not None:
        options = {**stage.options.model_dump(), "phonemizer": phonemizer_name}
        stage = stage.model_copy(update={"options": TextFrontendOptions(**options)})
    verify_files(version_dir, stage)
    if "inventory" not in stage.files:
        raise ConfigError("files.inventory: required key is missing", file=version_dir / STAGE_FILE)
    inventory = read_inventory(version_dir / stage.files["inventory"].file)
    try:
        language = find_language(stage.options.language)
    except ValueError as error:
        raise ConfigError(f"options.language: {error}", file=version_dir / STAGE_FILE) from error
    _check_phonemizer(stage, language, version_dir)
    _check_emoji(stage, version_dir)
    own = read_table(version_dir / stage.files["substitutes"].file) if "substitutes" in stage.files else None
    substitutes = Substitutes(inventory, own)
    if own is not None:
        substitutes.check_own(version_dir / stage.files["substitutes"].file)
    replacements = Replacements()
    if "rules" in stage.files:
        replacements = read_replacements(version_dir / stage.files["rules"].file)
    phonemizer = find_phonemizer(stage.options, language)
    try:
        lexicon = Lexicon()
        if "lexicon" in stage.files:
            parser = _g2p(phonemizer, Lexicon())
            file = version_dir / stage.files["lexicon"].file
            lexicon = read_lexicon(
                file,
                parser.parse_pronunciation,
                substitutes.has,
                is_frame=inventory.is_frame,
                english=language.code == "en",
            )
        reader = phonemizer.start() if phonemizer is not None else "pinyin"
        front_end = FrontEnd(
            stage.options,
            inventory,
            language,
            _g2p(phonemizer, lexicon),
            lexicon=lexicon,
            replacements=replacements,
            substitutes=substitutes,
        )
        if language.code in _WARM_UP:
            front_end.run(_WARM_UP[language.code], 1.0, "")
    except BaseException:
        if phonemizer is not None:
            phonemizer.close()
        raise
    if stage.options.phonemizer == "espeak":
        reader = f"espeak voice {stage.options.phonemizer_voice} (piper-tts {reader})"
    description = f"{language.name}, {reader}, {len(stage.options.speakers)} speakers"
    return Built(front_end, description, phonemizer, phonemizer.close if phonemizer is not None else _nothing)


def _check_phonemizer(stage: TextFrontendStage, language: Language, version_dir: Path) -> None:
    if stage.options.phonemizer == "pinyin" and language.code != _MANDARIN:
        raise ConfigError(
            f"options.phonemizer: pinyin reads Mandarin only, the language is {stage.options.language!r}",
            file=version_dir / STAGE_FILE,
        )
    if language.code == _MANDARIN:  # its numbers need wetext, whoever reads
        try:
            import pypinyin  # noqa: F401
            import wetext  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"the Mandarin front end is not installed ({error}); run: pip install 'voxrepo[mandarin]'",
                file=version_dir / STAGE_FILE,
            ) from error


def _check_emoji(stage: TextFrontendStage, version_dir: Path) -> None:
    if stage.options.emoji == "name" and importlib.util.find_spec("emoji") is None:
        raise ConfigError(
            "options.emoji: the names of emoji are not installed; run: pip install 'voxrepo[emoji]', "
            "or write `emoji: skip`",
            file=version_dir / STAGE_FILE,
        )


def _g2p(phonemizer: RunningPhonemizer | None, lexicon: Lexicon) -> G2P:
    return MandarinG2P(lexicon) if phonemizer is None else ClauseG2P(phonemizer, lexicon)


def _nothing() -> None:
    """There is no process to end."""
