"""``voxrepo rollout``: bring new versions of a voice's stages to its users, step by step."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from voxrepo.cli.output import (
    EXIT_USAGE,
    JsonOption,
    RootOption,
    console,
    fail,
    layout_of,
    print_json,
    shows_errors,
)
from voxrepo.cli.rollout_follow import controller_of, exit_code, follow, look, opened, order, who
from voxrepo.cli.rollout_spec import SpecOptions, load_spec, parse_pairs, parse_weight
from voxrepo.cli.rollout_start import begin, check_rollout
from voxrepo.cli.rollout_view import event_line, history_table, picture, versions_in_words
from voxrepo.rollout.decision import Command
from voxrepo.rollout.naming import find_rollout
from voxrepo.rollout.overview import EventView, read_statuses
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.replicas import Replicas
from voxrepo.rollout.route import PolicyName
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError, VoxrepoError

app = typer.Typer(no_args_is_help=True, help="Upgrade, canary, A/B and shadow the stages of a live voice.")


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """Voices and ids that begin so; for the shell."""
    root = context.params.get("root") or os.environ.get("VOXREPO_ROOT") or "."
    try:
        with opened(layout_of(Path(root), None)) as store:
            rollouts = store.rollouts()
    except VoxrepoError:
        return []
    active = [rollout.spec.voice for rollout in rollouts if not rollout.state.is_final]
    return [name for name in [*active, *(rollout.id for rollout in rollouts)] if name.startswith(incomplete)]


RolloutArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ROLLOUT | VOICE]",
        help="An id, the beginning of one, or a voice; not needed where only one rollout is under way.",
        autocompletion=_complete,
        show_default=False,
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the log.")]


@app.command()
def start(
    file: Annotated[
        Path | None, typer.Argument(metavar="[SPEC.yaml]", help="What is wanted; or say it by options.")
    ] = None,
    voice: Annotated[str | None, typer.Option("--voice", help="The voice.", show_default=False)] = None,
    versions: Annotated[
        list[str] | None, typer.Option("--set", metavar="stage=version", help="A stage of the new arm that differs.")
    ] = None,
    arm: Annotated[str | None, typer.Option("--arm", help="Its name.", show_default="candidate")] = None,
    policy: Annotated[PolicyName | None, typer.Option("--policy", show_default="canary")] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            metavar="1:60s,10:5m,50:5m",
            help="canary: percent, shortest time and, after one more colon, least number of requests of each step.",
            show_default="5:5m:200,25:5m:200,50:5m:200",
        ),
    ] = None,
    min_requests: Annotated[
        int | None,
        typer.Option("--min-requests", min=1, help="canary, ab: of each step, or arm.", show_default="200; ab: 1000"),
    ] = None,
    then: Annotated[
        Literal["promote", "wait", "finish"] | None,
        typer.Option(
            "--then",
            help="canary: promote after the last step, or wait for the command. shadow: promote, or finish.",
            show_default="promote; shadow: finish",
        ),
    ] = None,
    weight: Annotated[float | None, typer.Option("--weight", help="ab: percent of the arm.")] = None,
    length: Annotated[
        str | None, typer.Option("--duration", metavar="24h", help="ab: shortest time.", show_default="24h")
    ] = None,
    winner: Annotated[
        str | None,
        typer.Option(
            "--winner", metavar="METRIC", help="ab: promote the arm that is better in it.", show_default="manual"
        ),
    ] = None,
    percent: Annotated[
        float | None, typer.Option("--percent", help="shadow: share of the requests that is copied.", show_default="10")
    ] = None,
    min_pairs: Annotated[
        int | None, typer.Option("--min-pairs", min=1, help="shadow: to be compared.", show_default="200")
    ] = None,
    above_wait: Annotated[
        str | None,
        typer.Option("--above-wait", metavar="2s", help="overflow: wait above which the arm takes requests."),
    ] = None,
    below_wait: Annotated[
        str | None,
        typer.Option("--below-wait", metavar="0.5s", help="overflow: wait below which it does not any more."),
    ] = None,
    pair_percent: Annotated[
        float | None,
        typer.Option(
            "--pair-percent",
            help="canary, ab: share of the arm's requests that the stable arm speaks too, to compare the audio.",
            show_default="20",
        ),
    ] = None,
    keep_previous: Annotated[
        str | None,
        typer.Option(
            "--keep-previous", metavar="10m", help="How long the old versions stay loaded after it.", show_default="10m"
        ),
    ] = None,
    resource_preserving: Annotated[
        bool,
        typer.Option(
            "--resource-preserving",
            help="canary: unload first, without steps; requests wait meanwhile. For little memory.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check it, and print the whole spec with its defaults.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Begin a rollout. It is checked wholly before anything is written.

    Exit status: 0 begun, with --wait done; 1 with --wait: rolled back or refused; 2 nothing was begun.
    """
    options = SpecOptions(
        voice=voice,
        versions=versions or (),
        arm=arm,
        policy=policy,
        steps=steps,
        then=then,
        weight=weight,
        duration=length,
        min_requests=min_requests,
        winner=winner,
        percent=percent,
        min_pairs=min_pairs,
        above_wait=above_wait,
        below_wait=below_wait,
        pair_percent=pair_percent,
        keep_previous=keep_previous,
        resource_preserving=resource_preserving,
    )
    layout = layout_of(root, None)
    try:
        spec = load_spec(file, options)
        stable = check_rollout(layout, spec, file)
        if check:
            whole = spec.model_copy(update={"gates": spec.judged_gates, "pair_percent": spec.pairs_percent or None})
            typer.echo(yamlfile.dump(whole), nl=False)
            return
        rollout = begin(layout, spec, stable)
    except VoxrepoError as error:
        raise fail(error.message, EXIT_USAGE) from error
    arms = "; ".join(f"{name}: {versions_in_words(each, stable)}" for name, each in rollout.arms.items())
    console.print(f"rollout {rollout.id} of {spec.voice}, {spec.policy.kind}, {arms}", soft_wrap=True, markup=False)
    if spec.resource_preserving:
        console.print("the old versions are unloaded first; requests for the voice wait meanwhile", markup=False)
    if not Replicas.at(read_statuses(RolloutFolder(layout.rollouts)), time.time(), 0).living:
        console.print("no server of this root is alive; it begins when one is", markup=False)
    if not wait and not as_json:
        console.print(f"`voxrepo rollout watch {spec.voice}` follows it", markup=False)
    _finish_start(root, rollout.id, wait=wait, as_json=as_json)


@shows_errors
def _finish_start(root: Path, rollout: str, *, wait: bool, as_json: bool) -> None:
    layout = layout_of(root, None)
    with opened(layout) as store:
        view = follow(store, layout, rollout) if wait and not as_json else look(store, layout, rollout)
        while wait and not view.is_final:  # with --json nothing but the end is printed
            time.sleep(0.5)
            view = look(store, layout, rollout)
    if as_json:
        print_json(view)
    if wait:
        raise typer.Exit(exit_code(view))


@app.command()
@shows_errors
def status(name: RolloutArgument = None, root: RootOption = Path(), as_json: JsonOption = False) -> None:
    """Show rollouts that are under way, or one that is named."""
    layout = layout_of(root, None)
    with opened(layout) as store:
        rollouts = store.rollouts(only_active=True) if name is None else [find_rollout(store, name)]
        views = [look(store, layout, rollout.id) for rollout in rollouts]
        controller = controller_of(layout, store)
    if as_json:
        print_json({"controller": controller, "rollouts": [view.model_dump(mode="json") for view in views]})
        return
    if not views:
        console.print("no rollout is under way; `voxrepo rollout history` lists those that ended", markup=False)
    for view in views:
        Console(highlight=False).print(picture(view, controller, time.time()))


@app.command()
@shows_errors
def watch(name: RolloutArgument = None, root: RootOption = Path()) -> None:
    """Follow a rollout until it ends: live on a terminal, else line by line.

    Exit status: 0 done, 1 rolled back or refused.
    """
    layout = layout_of(root, None)
    with opened(layout) as store:
        view = follow(store, layout, find_rollout(store, name).id)
    raise typer.Exit(exit_code(view))


@app.command()
@shows_errors
def report(
    name: RolloutArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Where it goes.", show_default="rollout-<id>")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Plots need the extra 'bench'.")] = True,
    samples: Annotated[int, typer.Option("--samples", min=0, help="Pairs of audio in the page.")] = 10,
    root: RootOption = Path(),
) -> None:
    """Write what happened and what was measured: report.html (with plots and audio), report.md and report.json."""
    from voxrepo.reports.plots import check_plots
    from voxrepo.rollout.report_files import write_report
    from voxrepo.rollout.report_making import make_report

    if plots:
        try:
            check_plots()
        except ConfigError as error:
            raise ConfigError(f"{error.problem}; or leave them out with --no-plots") from error
    layout = layout_of(root, None)
    with opened(layout) as store:
        made = make_report(store, find_rollout(store, name), layout.rollouts, samples=samples)
    folder = out or Path(f"rollout-{made.report.id}")
    for path in write_report(made, folder, plots=plots):
        console.print(f"wrote {path}", soft_wrap=True, markup=False)


def _order(name: str | None, root: Path, command: Command) -> None:
    layout = layout_of(root, None)
    with opened(layout) as store:
        events = order(store, layout, find_rollout(store, name, only_active=True), command)
    for event in events:
        typer.echo(event_line(event))


@app.command()
@shows_errors
def promote(
    name: RolloutArgument = None,
    arm: Annotated[str, typer.Option("--arm", help="Where there are several.", show_default=False)] = "",
    reason: ReasonOption = "",
    root: RootOption = Path(),
) -> None:
    """Make the arm the stable one now, whatever its gates say."""
    _order(name, root, Command(kind="promote", arm=arm, reason=reason, by=who()))


@app.command()
@shows_errors
def pause(name: RolloutArgument = None, reason: ReasonOption = "", root: RootOption = Path()) -> None:
    """Stay in this step. A gate that fails still takes the arm back."""
    _order(name, root, Command(kind="pause", reason=reason, by=who()))


@app.command()
@shows_errors
def resume(name: RolloutArgument = None, reason: ReasonOption = "", root: RootOption = Path()) -> None:
    """Go on after a pause."""
    _order(name, root, Command(kind="resume", reason=reason, by=who()))


@app.command()
@shows_errors
def abort(name: RolloutArgument = None, reason: ReasonOption = "", root: RootOption = Path()) -> None:
    """Go back to the old versions, also after a promotion as long as they are kept."""
    _order(name, root, Command(kind="abort", reason=reason, by=who()))


@app.command()
@shows_errors
def weights(
    name: Annotated[
        str, typer.Argument(metavar="ROLLOUT | VOICE", autocompletion=_complete, help="As above.", show_default=False)
    ],
    shares: Annotated[
        list[str], typer.Argument(metavar="ARM=PERCENT...", help="The stable arm has the rest.", show_default=False)
    ],
    reason: ReasonOption = "",
    root: RootOption = Path(),
) -> None:
    """Change the arms' shares now; they hold until the next step. Arms that are not named get nothing."""
    given = {arm: parse_weight(share, arm) for arm, share in parse_pairs(shares, "weights").items()}
    _order(name, root, Command(kind="set_weights", weights=given, reason=reason, by=who()))


@app.command()
@shows_errors
def history(name: RolloutArgument = None, root: RootOption = Path(), as_json: JsonOption = False) -> None:
    """List all rollouts, or what happened in one; with --json one object a line."""
    layout = layout_of(root, None)
    with opened(layout) as store:
        if name is None:
            rollouts = store.rollouts()
            if not as_json:
                Console(highlight=False).print(history_table(rollouts))
                return
            lines = [look(store, layout, each.id, events=0).model_dump(mode="json") for each in rollouts]
        else:
            events = [EventView.of(logged) for logged in store.events(find_rollout(store, name).id)]
            if not as_json:
                typer.echo("\n".join(event_line(event) for event in events))
                return
            lines = [event.model_dump(mode="json") for event in events]
    for line in lines:
        typer.echo(json.dumps(line, ensure_ascii=False))
