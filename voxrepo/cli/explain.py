"""``voxrepo say --explain``: how a voice of this machine's repository reads a text, without a server."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voxrepo.cli.output import print_json
from voxrepo.repository.layout import Layout, backends_folder
from voxrepo.repository.voice import read_voice
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import stage_model_name

STAGE = "text_frontend"


def counted(counts: Mapping[str, int]) -> str:
    """Reasons and counts as words: ``2 emoji, 1 control``."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def explain_text(text: str, voice: str | None, root: Path, *, normalise: bool, as_json: bool) -> None:
    """Print each step from ``text`` to ids, for a refused text those up to the refusal.

    Args:
        text: what would be spoken.
        voice: whose front end reads; may be left out where ``root`` has only one.
        root: folder with ``model_repository/`` and ``ensembles/``.
        normalise: off, the text is read as written.
        as_json: print JSON instead of a table.

    Raises:
        VoxrepoError: the voice's files are wrong, what it needs is not installed, or it cannot speak the text.
    """
    layout = Layout.of(root)
    name = voice if voice is not None else _only_voice(layout)
    version = read_voice(layout, name).versions[STAGE]
    backend = str(backends_folder() / STAGE)
    if backend not in sys.path:
        sys.path.insert(0, backend)
    # a part of the backend, whose folder has only just been put on the path
    from text_backend.build import build_front_end
    from text_backend.explain import Refused, explain

    built = build_front_end(layout.version_dir(stage_model_name(name, STAGE), version))
    try:
        steps, utterance = explain(built.front_end, text, normalise=normalise)
    except Refused as refusal:
        shown = [(step.name, step.text) for step in refusal.steps]
        if as_json:
            print_json({"voice": name, "version": version, "steps": _listed(shown), "refused": refusal.message})
        else:
            _print_table(shown)
        raise
    finally:
        built.close()
    if as_json:
        print_json(
            {
                "voice": name,
                "version": version,
                "steps": _listed([(step.name, step.text) for step in steps]),
                "dropped": utterance.dropped,
                "substituted": utterance.substituted,
                "segment_lengths": utterance.segment_lengths.tolist(),
            }
        )
        return
    _print_table([(step.name, step.text) for step in steps])


def _listed(steps: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": step, "text": text} for step, text in steps]


def _print_table(steps: Sequence[tuple[str, str]]) -> None:
    table = Table("Step", "Result", show_lines=True)
    for step, text in steps:
        # Text, since brackets would be taken for markup
        table.add_row(Text(step), Text(text))
    Console().print(table)


def _only_voice(layout: Layout) -> str:
    names = layout.voice_names()
    if len(names) == 1:
        return names[0]
    if not names:
        raise ConfigError("there is no voice; give --root a folder with one", file=layout.ensembles)
    raise ConfigError(f"there are {len(names)} voices; choose one with --voice: {', '.join(names)}")
