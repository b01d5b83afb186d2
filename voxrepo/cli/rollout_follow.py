"""Following a rollout, and having its controller do something."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.live import Live

from voxrepo.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, console
from voxrepo.cli.rollout_view import clock, event_line, picture, summary_line
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import living_controllers
from voxrepo.rollout.decision import Command
from voxrepo.rollout.operator import obey
from voxrepo.rollout.overview import NO_CONTROLLER, EventView, RolloutOverview, overview_of, read_statuses
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.replicas import Replicas
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import Store
from voxrepo_contract.errors import InvalidArgument, NotFound, Unavailable

COMMAND_WAIT_S = 10.0
LOOK_INTERVAL_S = 0.5
SUMMARY_INTERVAL_S = 10.0


@contextmanager
def opened(layout: Layout, *, create: bool = False) -> Iterator[Store]:
    """The rollouts of a root.

    Raises:
        NotFound: there have been none, and ``create`` is false.
        ConfigError: the database cannot be used.
    """
    file = RolloutFolder(layout.rollouts).database
    if not create and not file.exists():
        raise NotFound(f"there is no rollout yet in {layout.root}; begin one with `voxrepo rollout start`")
    with Store(file) as store:
        yield store


def who() -> str:
    """Name of the user, for the log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no entry for the id in a container
        return f"user {os.getuid()}"


def controller_of(layout: Layout, store: Store | None = None) -> str | None:
    """Who carries rollouts out: the controller that leads, else one that lives; None if there is none."""
    folder = RolloutFolder(layout.rollouts)
    living = [sign.holder for sign in living_controllers(folder)]
    leading = None if store is None else store.lease_holder()
    return leading if leading in living else next(iter(living), None)


def look(store: Store, layout: Layout, rollout: str, *, events: int | None = None) -> RolloutOverview:
    """What is known of a rollout now."""
    more = {} if events is None else {"events": events}
    statuses = read_statuses(RolloutFolder(layout.rollouts))
    return overview_of(store, store.rollout(rollout), statuses, **more)


def exit_code(view: RolloutOverview) -> int:
    """0 if it came to the end that was wanted, 1 if it was taken back or refused."""
    return 0 if view.phase == "done" else EXIT_FAILED


def follow(store: Store, layout: Layout, rollout: str) -> RolloutOverview:
    """Show a rollout until it ends: as a picture on a terminal, else line by line.

    Raises:
        typer.Exit: interrupted.
    """
    out = Console(highlight=False)
    try:
        if out.is_terminal:
            return _follow_live(store, layout, rollout, out)
        return _follow_lines(store, layout, rollout)
    except KeyboardInterrupt:
        console.print(f"the rollout goes on; `voxrepo rollout watch {rollout}` follows it again", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _follow_live(store: Store, layout: Layout, rollout: str, out: Console) -> RolloutOverview:
    view = look(store, layout, rollout)
    with Live(console=out, auto_refresh=False) as live:
        while True:
            live.update(picture(view, controller_of(layout, store), time.time()), refresh=True)
            if view.is_final:
                return view
            time.sleep(LOOK_INTERVAL_S)
            view = _look_again(store, layout, rollout, view)


def _follow_lines(store: Store, layout: Layout, rollout: str) -> RolloutOverview:
    view = look(store, layout, rollout)
    last_event, last_said, said_at, had_controller = 0, "", -SUMMARY_INTERVAL_S, True
    while True:
        for logged in store.events(rollout, after=last_event):
            typer.echo(event_line(EventView.of(logged)))
            last_event = logged.id
        if view.is_final:
            return view
        now = time.monotonic()
        said = summary_line(view)
        if said != last_said and now - said_at >= SUMMARY_INTERVAL_S:
            typer.echo(f"{clock(time.time())} {said}")
            last_said, said_at = said, now
        has_controller = controller_of(layout) is not None
        if had_controller and not has_controller:
            console.print(NO_CONTROLLER, markup=False)
        had_controller = has_controller
        time.sleep(LOOK_INTERVAL_S)
        view = _look_again(store, layout, rollout, view)


def _look_again(store: Store, layout: Layout, rollout: str, before: RolloutOverview) -> RolloutOverview:
    try:
        return look(store, layout, rollout)
    except Unavailable:  # locked for long; it is no reason to stop watching
        return before


def order(store: Store, layout: Layout, rollout: Rollout, command: Command) -> list[EventView]:
    """Have the controller carry out a command.

    Returns:
        the events that it led to.

    Raises:
        InvalidArgument: it cannot be carried out; nothing was changed.
        Unavailable: no controller took it; it is left for the next one.
    """
    if not store.commands(rollout.id):  # what waits may change what is possible
        replicas = Replicas.at(read_statuses(RolloutFolder(layout.rollouts)), time.time(), 0)
        for event in obey(rollout, command, replicas, time.time()).events:
            if event.kind == "command_refused":
                raise InvalidArgument(event.reason)
    before = max((event.id for event in store.events(rollout.id)), default=0)
    left = store.order(rollout.id, command)
    end = time.monotonic() + COMMAND_WAIT_S
    while not store.is_consumed(left.id):
        if time.monotonic() >= end:
            if controller_of(layout) is None:
                raise Unavailable(f"{NO_CONTROLLER}; the command is carried out as soon as one does")
            raise Unavailable(
                f"the controller did not take the command within {COMMAND_WAIT_S:g} s; it is still left for it, "
                f"`voxrepo rollout status {rollout.id}` shows what becomes of it"
            )
        time.sleep(0.1)
    events = [EventView.of(logged) for logged in store.events(rollout.id, after=before)]
    refused = [event for event in events if event.kind == "command_refused" and event.reason.startswith(command.said)]
    if refused:
        raise InvalidArgument(refused[-1].reason)
    return events
