"""``voxrepo quality``: compares two versions of a stage by their sound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from voxrepo.cli.output import JsonOption, RootOption, console, layout_of, print_json, shows_errors
from voxrepo.cli.version import shown_progress
from voxrepo.versions.names import parse_pins, parse_ref, parse_version
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.names import is_version_name

if TYPE_CHECKING:
    from voxrepo.quality.judge import JudgeOptions, Progress, VersionJudge
    from voxrepo.quality.judgement import Judgement
    from voxrepo.reports.tables import ReportTable
    from voxrepo.repository.layout import Layout

EXIT_REFUSED = 3
EXIT_INCONCLUSIVE = 4

_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}
_SHOWN = ("Gates", "Each version alone", "Size and time")


@shows_errors
def quality(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="VOICE.stage@version | VOICE",
            help="What is compared with; a voice alone with --set.",
            show_default=False,
        ),
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(metavar="VOICE.stage@version | version", help="The candidate.", show_default=False),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="stage=version", help="With VOICE alone: a version that the candidate has."),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="stage=version",
            help="Version of another stage; with VOICE alone, of the reference.",
            show_default="the voice's",
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts", metavar="FILE.txt", help="One text a line.", show_default="ten texts of the voice's language"
        ),
    ] = None,
    made_up: Annotated[
        bool, typer.Option("--made-up", help="Say made-up phonemes, which need no text front end.")
    ] = False,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate", metavar="name=limit | name=off", help="Change, add or leave out a gate.", show_default=False
        ),
    ] = None,
    transcribe: Annotated[
        bool, typer.Option("--transcribe", help="Let a recogniser listen too (extra 'asr'): error rates.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FOLDER", help="Write report.html, report.md and report.json there."),
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Plots need the extra 'bench'.")] = True,
    samples: Annotated[int, typer.Option("--samples", min=0, help="Pairs of audio in the page.")] = 6,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Compare two versions by their sound, offline, and say whether the candidate may take the other's place.

    The exit status is 0 if it may, 3 if a gate refuses it, 4 if something that a gate asks for was not measured.
    """
    from voxrepo.quality.gates import parse_changes
    from voxrepo.quality.judge import JudgeOptions

    if texts is not None and made_up:
        raise InvalidArgument("--texts and --made-up both say what is spoken; give one of them")
    if out is not None and plots:
        _check_plots()
    layout = layout_of(root, None)
    options = JudgeOptions(texts=texts, made_up=made_up, transcribe=transcribe, changes=parse_changes(gate or []))
    voice, before, after = _sides(layout, reference, candidate, parse_pins(changed or []), parse_pins(beside or []))
    with shown_progress("comparing") as progress:
        judge, judgement = _judge(layout, voice, before, after, options, progress)
    if out is not None:
        _write(judge, judgement, out, plots, samples)
    if as_json:
        print_json(judgement)
    else:
        _show(judgement)
    if not judgement.accepted:
        raise typer.Exit(EXIT_REFUSED if judgement.verdict == "refused" else EXIT_INCONCLUSIVE)


def _check_plots() -> None:
    from voxrepo.reports.plots import check_plots

    try:
        check_plots()
    except ConfigError as error:
        raise ConfigError(f"{error.problem}; or leave them out with --no-plots") from error


def _sides(
    layout: Layout,
    reference: str,
    candidate: str | None,
    changed: Mapping[str, int],
    beside: Mapping[str, int],
) -> tuple[str, dict[str, int], dict[str, int]]:
    """The voice, the reference's versions and those of the candidate that differ."""
    names = layout.voice_names()
    ref = parse_ref(reference, names)
    if ref.stage is None:
        if candidate is not None or not changed:
            raise InvalidArgument(
                f"{reference!r} is a whole voice: say with --set stage=version what the candidate has, and name no "
                "second one; or name two versions of a stage"
            )
        return ref.voice, dict(beside), dict(changed)
    if candidate is None or changed:
        raise InvalidArgument(
            f"name a second version, such as {ref.voice}.{ref.stage}@2; --set goes with a whole voice only"
        )
    one, number = parse_version(reference, names)
    if is_version_name(candidate):
        candidate = f"{one.model}@{candidate}"
    other, other_number = parse_version(candidate, names)
    if other != one:
        raise InvalidArgument(f"{reference!r} and {candidate!r} are different stages; compare versions of one")
    if one.stage in beside:
        raise InvalidArgument(f"--with {one.stage}={beside[one.stage]}: the versions compared are of this stage")
    return one.voice, {**beside, one.stage: number}, {one.stage: other_number}


def _judge(
    layout: Layout,
    voice: str,
    before: Mapping[str, int],
    after: Mapping[str, int],
    options: JudgeOptions,
    progress: Progress,
) -> tuple[VersionJudge, Judgement]:
    from voxrepo.quality.judge import VersionJudge, version_folder

    folders = {stage: version_folder(layout, voice, stage, version) for stage, version in after.items()}
    judge = VersionJudge(layout, voice, before, options, candidate_front_end=folders.get("text_frontend"))
    return judge, judge.judge(folders, {stage: str(version) for stage, version in after.items()}, progress)


def _write(judge: VersionJudge, judgement: Judgement, folder: Path, plots: bool, count: int) -> None:
    from voxrepo.quality.report import QualityReport, choose_samples
    from voxrepo.quality.report_files import write_report

    samples = choose_samples(judgement, judge.spoken, count)
    report = QualityReport(judgement, samples, judge.voice.sample_rate_hz)
    for path in write_report(report, folder, plots=plots):
        console.print(f"wrote {path}", soft_wrap=True, markup=False)


def _show(judgement: Judgement) -> None:
    from voxrepo.quality.report_tables import tables

    shown = Console()
    for table in tables(judgement):
        if table.title in _SHOWN:
            shown.print(_table(table))
    for note in judgement.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    shown.print(judgement.sentence, soft_wrap=True, markup=False, highlight=False)


def _table(made: ReportTable) -> Table:
    table = Table(title=made.title)
    for heading in made.headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in {"value", "candidate"} else "left")
    for row in made.rows:
        # Text, since brackets would be taken for markup
        table.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    return table
