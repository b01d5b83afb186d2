"""``voxrepo voice create``: a voice from any acoustic graph and vocoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from voxrepo.cli.output import JsonOption, RootOption, console, layout_of, print_json, shows_errors
from voxrepo.importers.install import ImportedVoice, install_voice
from voxrepo.importers.requirements import require_onnx
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import read_stage

if TYPE_CHECKING:
    from voxrepo.importers.generic_request import GenericRequest

Shown = Callable[[], AbstractContextManager[Callable[[str, float], None]]]

MAX_WRONG_CHARACTERS = 0.5
"""Share of characters that the recogniser may get wrong. Good voices here have 0.02 to 0.15; noise and babble 0.8 and
more."""


def create_command(shown_progress: Shown) -> Callable[..., None]:
    """The command, given the way to show progress that ``voxrepo voice import`` has."""

    @shows_errors
    def create(
        name: Annotated[str, typer.Argument(metavar="NAME", help="Of the voice, which clients call.")],
        frontend: Annotated[
            str,
            typer.Option(
                "--frontend",
                metavar="PROFILE|FOLDER",
                help="en-us, en-us-espeak, zh-cn, espeak:VOICE, or a version folder of a text front end.",
            ),
        ],
        acoustic: Annotated[Path, typer.Option("--acoustic", metavar="A.onnx", help="Phoneme ids to features (mel).")],
        vocoder: Annotated[Path, typer.Option("--vocoder", metavar="V.onnx", help="Features to waveform.")],
        config: Annotated[
            Path | None, typer.Option("--config", help="What the training knew: sample rate, hop, scales (YAML, JSON).")
        ] = None,
        tokens: Annotated[
            Path | None, typer.Option("--tokens", help="Table of symbols: one a line, or JSON; with a profile.")
        ] = None,
        bos: Annotated[
            list[str] | None, typer.Option("--bos", help="Symbol that opens a segment; '' for none.")
        ] = None,
        eos: Annotated[
            list[str] | None, typer.Option("--eos", help="Symbol that closes a segment; '' for none.")
        ] = None,
        pad: Annotated[str | None, typer.Option("--pad", help="Symbol after each other symbol; '' for none.")] = None,
        language: Annotated[str | None, typer.Option("--language", help="BCP 47 tag, with espeak:VOICE.")] = None,
        sample_rate: Annotated[int | None, typer.Option("--sample-rate", help="Hz, where no file says it.")] = None,
        channels: Annotated[
            int | None, typer.Option("--channels", help="Bands of the features, where no file says it.")
        ] = None,
        speakers: Annotated[
            str, typer.Option("--speakers", metavar="A,B,...", help="Names in the order of their ids.")
        ] = "",
        inputs: Annotated[
            list[str] | None,
            typer.Option("--input", metavar="ROLE=TENSOR", help="What an input of the acoustic graph is for."),
        ] = None,
        outputs: Annotated[
            list[str] | None, typer.Option("--output", metavar="ROLE=TENSOR", help="Likewise: features, frames.")
        ] = None,
        constants: Annotated[
            list[str] | None, typer.Option("--set", metavar="TENSOR=NUMBER", help="A fixed value for an input.")
        ] = None,
        mel_scale: Annotated[float | None, typer.Option("--mel-scale", help="Factor on the features.")] = None,
        mel_shift: Annotated[float | None, typer.Option("--mel-shift", help="Added to the features then.")] = None,
        texts: Annotated[Path | None, typer.Option("--texts", help="Texts for the check by sound, one a line.")] = None,
        cut: Annotated[bool, typer.Option("--cut/--no-cut", help="Cut at the length regulator where possible.")] = True,
        check_words: Annotated[
            bool, typer.Option("--check-words", help="Let the recogniser of the extra 'asr' listen, too.")
        ] = False,
        licence: Annotated[str, typer.Option("--licence", help="Licence of the weights, stored in provenance.")] = "",
        root: RootOption = Path(),
        as_json: JsonOption = False,
    ) -> None:
        """Make a voice of an acoustic graph and a vocoder in ONNX, after listening to what they say together.

        Exit status: 0 done, 1 refused or failed, 2 wrong usage.
        """
        require_onnx("creating a voice")
        from voxrepo.convert.text_lengths import read_texts
        from voxrepo.importers.generic import builder
        from voxrepo.importers.generic_frontend import Marks
        from voxrepo.importers.generic_request import GenericRequest
        from voxrepo.importers.generic_roles import INPUT_ROLES, OUTPUT_ROLES, parse_constants, parse_pairs

        layout = layout_of(root, None)
        request = GenericRequest(
            frontend=frontend,
            acoustic=acoustic,
            vocoder=vocoder,
            config=config,
            tokens=tokens,
            marks=Marks(_symbols(bos), _symbols(eos), pad),
            language=language,
            sample_rate_hz=sample_rate,
            channels=channels,
            speakers=tuple(part.strip() for part in speakers.split(",") if part.strip()),
            inputs=parse_pairs(inputs or [], "--input", INPUT_ROLES),
            outputs=parse_pairs(outputs or [], "--output", OUTPUT_ROLES),
            constants=parse_constants(constants or []),
            mel_scale=mel_scale,
            mel_shift=mel_shift,
            licence=licence,
            texts=tuple(read_texts(texts)) if texts is not None else (),
            cut=cut,
        )
        words: dict[str, Any] = {}
        with shown_progress() as progress:
            build = builder(request, progress)

            def checked(folder: Path) -> Any:
                made = build(folder)
                if check_words:
                    progress("listening", 0.98)
                    words.update(_check_words(request, folder, made.sample_rate_hz))
                return made

            imported = install_voice(layout, name, checked, licence)
        _report(layout, imported, words, as_json)

    return create


def _symbols(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(symbol for symbol in given if symbol)


def _check_words(request: GenericRequest, folder: Path, sample_rate_hz: int) -> dict[str, Any]:
    from voxrepo.importers.generic_words import heard_words

    words = heard_words(request.texts, folder, sample_rate_hz)
    if words["character_error_rate"] > MAX_WRONG_CHARACTERS:
        raise ConversionRefused(
            f"the recogniser hears other words: {100 * words['character_error_rate']:.0f} % of the characters are "
            f"wrong, at most {100 * MAX_WRONG_CHARACTERS:.0f} % may be (heard {words['heard'][0]!r} for "
            f"{words['said'][0]!r}); is the table of symbols that of the model, with its --bos, --eos and --pad?"
        )
    return words


def _report(layout: Layout, imported: ImportedVoice, words: dict[str, Any], as_json: bool) -> None:
    stages = {
        stage: read_stage(layout.version_dir(stage_model_name(imported.voice, stage), number))
        for stage, number in imported.versions.items()
    }
    sound = stages["vocoder"].quality["sound"]
    if as_json:
        summary = {
            **imported.summary(),
            "programs": {stage: found.program for stage, found in stages.items()},
            "interface": stages["vocoder"].interface.model_dump(),
            "overlap_frames": imported.made.overlap_frames,
            "sound": sound,
            "notes": list(imported.made.notes),
        }
        print_json({**summary, "words": words} if words else summary)
        return
    table = Table(title=f"{imported.voice}: what the two graphs say together")
    table.add_column("measure")
    table.add_column("value", justify="right")
    made = imported.made
    rows = {
        "features": f"{made.channels} channels, {made.hop_length_samples} samples at {made.sample_rate_hz} Hz each",
        "acoustic program": stages["acoustic"].program,
        "windows": f"{made.window_frames} frames, {made.overlap_frames} of overlap",
        "overlap": stages["vocoder"].quality["overlap"],
        **{name.replace("_", " "): str(value) for name, value in sound.items()},
    }
    if words:
        rows["wrong characters"] = f"{100 * words['character_error_rate']:.1f} %"
    for label, value in rows.items():
        table.add_row(label, value)
    console.print(table, markup=False)
    for boundary, difference in imported.proof.items():
        console.print(f"proof: largest difference at {boundary}: {difference:.2e}", soft_wrap=True, markup=False)
    for note in made.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    for path in imported.paths:
        console.print(f"wrote {path}", soft_wrap=True, markup=False)
