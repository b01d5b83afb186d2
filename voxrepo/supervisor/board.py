"""What a server knows of itself, and where it says so: its state file, the edge's table, and numbers for metrics."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping

from voxrepo.metrics.supervision import supervision_text, write_supervision
from voxrepo.repository.check import CheckedVoice, Inventory, Problem
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.supervisor.arm_table import ArmTable
from voxrepo.supervisor.device import Device
from voxrepo.supervisor.loader import edge_table
from voxrepo.supervisor.state import Phase, ServerState, StateFolder
from voxrepo.supervisor.tablefile import TableFile

log = logging.getLogger(__name__)


class Board:
    """One server's.

    Args:
        folder: for the files.
        state: to begin with.
        on_change: told about every change of state, for whoever watches.

    Attributes:
        state: as it is now.
        inventory: what the repository holds and the server serves, or would if it could.
        device: what graphs with ``device: npu`` run on.
        reloads: how often each model was loaded again, because its process had died.
        edge_workers: numbers of the edge processes that serve.
        arms: what rollouts add to the table.
        table: the file of the edge's table.
    """

    def __init__(self, folder: StateFolder, state: ServerState, on_change: Callable[[ServerState], None]) -> None:
        self._folder = folder
        self._on_change = on_change
        self._ready = False
        self.state = state
        self.inventory = Inventory()
        self.device: Device = "cpu"
        self.reloads: Mapping[str, int] = {}
        self.edge_workers: list[int] = []
        self.arms = ArmTable()
        self.table = TableFile(folder.table_file)

    def publish(self, *, ready: bool | None = None) -> None:
        """Tell the edge what is served.

        Args:
            ready: whether everything that can be is; as last time if not given.

        Raises:
            ConfigError: the first table cannot be written.
        """
        self._ready = self._ready if ready is None else ready
        self.table.put(
            edge_table(
                self.table.generation + 1,
                self.inventory,
                self.state.models,
                ready=self._ready,
                cores=usable_cores(),
                device=self.device,
                held=self.state.held,
                reloads=self.reloads,
                edge_workers=self.edge_workers,
                arms=self.arms,
            )
        )

    def update(self, phase: Phase | None = None, **changes: object) -> None:
        """Change the state and write it."""
        if phase is not None:
            changes["phase"] = phase
        self.state = self.state.model_copy(update=changes)
        try:
            self._folder.write(self.state)
        except OSError as error:
            # a full disk must not take a serving server down
            log.error("the state could not be written: %s", error)
        with contextlib.suppress(OSError):  # nor must one under the file that takes this process's output
            self._on_change(self.state)

    def hold_all(self) -> None:
        """Let requests for all that was served wait; the engine is back soon."""
        ready = [status.name for status in self.state.models if status.state == "ready"]
        self.update(phase="degraded", held=ready)
        self.publish(ready=False)

    def refuse_all(self) -> None:
        """Have the edge refuse requests at once; nobody knows when the engine is back."""
        models = [
            status if status.state == "failed" else status.model_copy(update={"state": "loading"})
            for status in self.state.models
        ]
        self.update(phase="loading", models=models, held=[])
        self.publish(ready=False)

    def drop(self, given_up: Mapping[str, str]) -> None:
        """Serve these voices and models no more, for the reasons given; the edge is not told yet."""
        for name, reason in given_up.items():
            is_voice = self.inventory.voices.pop(name, None) is not None
            self.inventory.models.pop(name, None)
            self.inventory.problems.append(Problem(name, "voice" if is_voice else "model", reason))
        self._change_models(given_up, "failed")

    def take_back(self, back: Inventory) -> None:
        """Serve what was dropped again; the edge is not told yet."""
        self.inventory.voices.update(back.voices)
        self.inventory.models.update(back.models)
        names = {*back.voices, *back.models}
        self.inventory.problems[:] = [
            problem for problem in self.inventory.problems if problem.model not in names or problem.version is not None
        ]
        self._change_models(dict.fromkeys(names, ""), "ready")
        for voice in back.voices.values():
            self.move(voice)

    def move(self, voice: CheckedVoice) -> None:
        """Serve a voice with other versions; the edge is not told yet."""
        name = voice.spec.voice
        self.inventory.voices[name] = voice
        self.update(
            models=[
                status.model_copy(update={"versions": voice.spec.versions}) if status.name == name else status
                for status in self.state.models
            ]
        )

    def is_served(self, voice: str) -> bool:
        """Whether a voice is loaded and sound."""
        states = {status.name: status.state for status in self.state.models if status.kind == "voice"}
        return voice in self.inventory.voices and states.get(voice) == "ready"

    def _change_models(self, reasons: Mapping[str, str], state: str) -> None:
        models = [
            status.model_copy(update={"state": state, "reason": reasons[status.name]})
            if status.name in reasons
            else status
            for status in self.state.models
        ]
        if reasons:
            self.update(models=models)

    def write_numbers(self) -> None:
        """Tell the metrics page how often what was restarted."""
        state = self.state
        text = supervision_text(
            engine_restarts=state.engine_restarts,
            engine_recycles=state.engine_recycles,
            stub_restarts=state.stub_restarts,
            memory_bytes=state.engine_memory_bytes,
        )
        with contextlib.suppress(OSError):  # on a full disk the numbers stay as they are
            write_supervision(self._folder.supervision_file, text)
