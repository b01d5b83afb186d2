"""Rollouts of a real voice: started as the command line starts them, and watched to their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.harness import VOICE
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import Store


class Watched:
    """One root's rollouts.

    Args:
        root: of the server.
    """

    def __init__(self, root: Path) -> None:
        self.layout = Layout.of(root)
        self.folder = RolloutFolder(self.layout.rollouts)
        self.id = ""

    def start(self, spec: str) -> None:
        """Start one and follow it from now on."""
        with Store(self.folder.database) as store:
            self.id = store.create(parse_spec(spec), read_voice(self.layout, VOICE).versions, by="test").id

    def rollout(self) -> Rollout:
        with Store(self.folder.database) as store:
            return store.rollout(self.id)

    @property
    def phase(self) -> str:
        return self.rollout().state.phase

    def path(self) -> list[str]:
        """Phases as the log tells them, each beginning where the one before ended."""
        phases = ["pending"]
        for line in self.events():
            if line[0] == "state":
                assert line[1] == phases[-1], self.events()
                phases.append(line[2])
        return phases

    def events(self) -> list[tuple[str, str, str, str]]:
        with Store(self.folder.database) as store:
            return [
                (logged.event.kind, logged.event.from_phase, logged.event.to_phase, logged.event.reason)
                for logged in store.events(self.id)
            ]

    def said(self) -> str:
        """All that is known, for a test that fails."""
        with Store(self.folder.database) as store:
            progress = store.progress(self.id)
        verdicts = [] if progress.judgement is None else [each.reason for each in progress.judgement.verdicts]
        log = self.layout.state / "logs" / "controller.log"
        text = log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""
        return "\n".join([*map(str, self.events()), f"waits: {progress.waiting}", *verdicts, text])

    def wait(self, is_so: Callable[[Rollout], bool], timeout_s: float = 120) -> Rollout:
        """Wait until something holds of the rollout."""
        end = time.monotonic() + timeout_s
        while True:
            rollout = self.rollout()
            if is_so(rollout):
                return rollout
            assert not rollout.state.is_final, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def wait_for_end(self, timeout_s: float = 180) -> Rollout:
        """Wait until it has ended, and no plan speaks of it any more."""
        return self.wait(lambda rollout: rollout.state.is_final, timeout_s)
