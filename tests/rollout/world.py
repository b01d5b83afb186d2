"""A root with one voice, servers that follow the plan without an engine, clients without a network, and a clock."""

from __future__ import annotations

import itertools
import shutil
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.controller import Controller
from voxrepo.rollout.plan import (
    ArmStatus,
    PairSeen,
    Plan,
    ReplicaStatus,
    ReplicaVoice,
    RequestSeen,
    RolloutFolder,
    read_json,
    write_json,
)
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.spec import RolloutSpec, parse_spec
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import LoggedEvent, Store

Audio = npt.NDArray[np.int16]
VOICE = "en-joe"
OLD = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
NEW = {**OLD, "vocoder": 2}
RATE_HZ = 8000
VOICE_YAML = """\
schema_version: 1
voice: en-joe
language: en-US
sample_rate_hz: 8000
speakers: [joe]
stages:
  text_frontend: {version: 1}
  acoustic:
    version: 1   # the good one
    instances: 2
  vocoder: {version: 1, threads: 1}
"""
CANARY = """\
voice: en-joe
arms: {candidate: {vocoder: 2}}
policy:
  kind: canary
  arm: candidate
  steps: [{weight: 10, hold_s: 10, min_requests: 100}, {weight: 50, hold_s: 10, min_requests: 200}]
keep_previous_s: 20
"""


class Server:
    """One server that follows the plan at once, unless it cannot.

    Args:
        world: in which it is.
        name: of the replica.

    Attributes:
        broken: reasons by arm for which it fails to load.
        cannot_move: why it cannot change the stable versions; empty if it can.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.stable = dict(OLD)
        self.broken: dict[str, str] = {}
        self.cannot_move = ""
        self.is_alive = True

    def follow(self) -> None:
        """Do what the plan says, and say so."""
        if not self.is_alive:
            return
        plan = self._world.plan
        voices = {}
        for voice, wanted in plan.voices.items():
            reason = ""
            if wanted.stable != self.stable:
                reason = self.cannot_move
                self.stable = self.stable if reason else dict(wanted.stable)
            arms = {
                arm: ArmStatus(
                    state="failed" if arm in self.broken else "ready",
                    versions=versions,
                    reason=self.broken.get(arm, ""),
                )
                for arm, versions in wanted.arms.items()
            }
            voices[voice] = ReplicaVoice(stable=self.stable, arms=arms, reason=reason)
        status = ReplicaStatus(
            name=self.name, pid=1, updated_at=self._world.now, generation=plan.generation, phase="ready", voices=voices
        )
        write_json(self._world.folder.status_file(self.name), status)


class World:
    """All of it.

    Args:
        root: an empty folder, or a copy of another world's.
        servers: how many.
    """

    def __init__(self, root: Path, servers: int = 1, now: float = 1000.0) -> None:
        self.layout = Layout.of(root)
        self.folder = RolloutFolder(self.layout.rollouts)
        self.now = now
        self.voice_file = self.layout.voice_file(VOICE)
        if not self.voice_file.exists():
            self.voice_file.parent.mkdir(parents=True)
            self.voice_file.write_text(VOICE_YAML, encoding="utf-8")
        self.servers = [Server(self, f"s{number}") for number in range(servers)]
        self._lives = itertools.count(1)
        self._numbers = itertools.count(1)
        self._controller: Controller | None = None

    def copy(self, root: Path) -> World:
        """Another world that is as this one is now; nobody there has a controller yet."""
        shutil.copytree(self.layout.root, root)
        other = World(root, 0, self.now)
        for server in self.servers:
            twin = Server(other, server.name)
            twin.stable, twin.broken, twin.cannot_move = dict(server.stable), dict(server.broken), server.cannot_move
            other.servers.append(twin)
        other._numbers = itertools.count(next(self._numbers) + 1_000_000)
        other._lives = itertools.count(1000)
        return other

    # what a test looks at

    @property
    def plan(self) -> Plan:
        """What the controller wants."""
        return read_json(self.folder.plan_file, Plan) or Plan()

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The database, as the command line opens it."""
        with Store(self.folder.database, lambda: self.now) as store:
            store.database.connection.execute("PRAGMA synchronous = OFF")  # processes die here, not the machine
            yield store

    @property
    def weights(self) -> dict[str, float]:
        """Percent by arm that the plan gives."""
        route = self.plan.voices[VOICE].route
        assert route is not None
        return route.weights

    @property
    def rollout(self) -> Rollout:
        """The newest rollout."""
        with self.store() as store:
            return store.rollouts()[-1]

    @property
    def phase(self) -> str:
        """Its phase."""
        return self.rollout.state.phase

    @property
    def events(self) -> list[LoggedEvent]:
        """Its log."""
        with self.store() as store:
            return store.events(self.rollout.id)

    @property
    def path(self) -> list[str]:
        """The phases that the log tells of, in order; each must begin where the one before ended."""
        phases = ["pending"]
        for logged in self.events:
            if logged.event.kind == "state":
                assert logged.event.from_phase == phases[-1], (phases, logged)
                phases.append(logged.event.to_phase)
        return phases

    def pinned(self) -> dict[str, int]:
        """Versions in ``voice.yaml``."""
        return read_voice(self.layout, VOICE).versions

    # what happens

    def start(self, spec: str | RolloutSpec = CANARY) -> Rollout:
        """Somebody starts a rollout."""
        with self.store() as store:
            return store.create(parse_spec(spec) if isinstance(spec, str) else spec, OLD, id_="r1")

    @property
    def controller(self) -> Controller:
        """The one that runs; the first time it is started."""
        if self._controller is None:
            holder = f"controller {next(self._lives)}"
            clock = lambda: self.now  # noqa: E731
            self._controller = Controller(self.layout, holder, clock=clock, ticks=clock)
            self._controller._store.database.connection.execute("PRAGMA synchronous = OFF")
        return self._controller

    def kill(self) -> None:
        """The controller ends without doing anything more; its lease runs out in time."""
        if self._controller is not None:
            self._controller._store.close()
            self._controller = None

    def look(self, seconds: float = 1.0) -> None:
        """Time passes, the servers follow, the controller looks once."""
        self.now += seconds
        for server in self.servers:
            server.follow()
        self.controller.step()

    def look_until(self, is_so: Callable[[], bool], looks: int = 60, speak: Callable[[], None] | None = None) -> None:
        """Look again and again; clients speak in between."""
        for _ in range(looks):
            if is_so():
                return
            if speak is not None:
                speak()
            self.look()
        raise AssertionError(f"{self.phase}: {[logged.event.reason for logged in self.events]}")

    def speak(
        self,
        arm: str = "candidate",
        count: int = 250,
        *,
        failed: int = 0,
        slower: float = 1.0,
        silence: float = 0.2,
        server: str = "s0",
        number: int | None = None,
    ) -> None:
        """Requests of an arm, as an edge process writes them down."""
        generator = np.random.default_rng(next(self._numbers) if number is None else number)
        audio_s = generator.lognormal(1.0, 0.3, count)
        latency_s = (0.05 + 0.08 * audio_s) * slower
        lines = [
            RequestSeen(
                at=self.now,
                rollout="r1",
                voice=VOICE,
                arm=arm,
                outcome="failed" if place < failed else "ok",
                latency_s=float(latency_s[place]),
                engine_s=float(latency_s[place]),
                audio_s=float(audio_s[place]),
                level_dbfs=-20.0,
                clipped_ratio=0.0,
                silence_ratio=silence,
            ).model_dump_json(exclude_none=True)
            for place in range(count)
        ]
        file = self.folder.observations(server) / f"0-1-{int(self.now * 4)}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write("".join(line + "\n" for line in lines))

    def pair(
        self,
        id_: str,
        *,
        arm: str = "candidate",
        gain: float = 1.0,
        stretch: float = 1.0,
        seconds: float = 0.5,
        fault: str = "",
        server: str = "s0",
    ) -> None:
        """A request that both arms spoke, as an edge process leaves it."""
        folder = self.folder.pairs(server)
        folder.mkdir(parents=True, exist_ok=True)
        write_wav(folder / f"{id_}.{STABLE_ARM}.wav", tone(seconds))
        if not fault:
            write_wav(folder / f"{id_}.{arm}.wav", tone(seconds * stretch, gain))
        seen = PairSeen(
            id=id_, at=self.now, rollout="r1", voice=VOICE, arm=arm, text="Hello.", language="en-US", seed=1,
            speed=1.0, speaker="joe", fault=fault,
        )  # fmt: skip
        (folder / f"{id_}.json").write_text(seen.model_dump_json(), encoding="utf-8")

    def measure_all(self) -> None:
        """Look until all pairs are measured; no time passes."""
        end = time.monotonic() + 20
        while list(self.folder.replicas.glob("*/pairs/*.json")):
            self.look(0.0)
            time.sleep(0.002)
            assert time.monotonic() < end

    def counted(self, arm: str = "candidate") -> int:
        """Requests of an arm that were taken over."""
        with self.store() as store:
            rows = store.database.query("SELECT sum(requests) AS n FROM totals WHERE arm = ?", (arm,))
            return int(rows[0]["n"] or 0)


def tone(seconds: float, gain: float = 1.0) -> Audio:
    """Two tones that change, so that spectra can be compared: INT16 [N]."""
    at_s = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    wanders = np.sin(2 * np.pi * (300 + 200 * at_s) * at_s) + 0.5 * np.sin(2 * np.pi * 1500 * at_s)
    audio: Audio = (3000 * gain * wanders).astype(np.int16)
    return audio


def write_wav(file: Path, audio: Audio) -> None:
    """A file as the edge writes it."""
    with wave.open(str(file), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(RATE_HZ)
        stream.writeframes(audio.astype("<i2").tobytes())


def metrics_of(world: World) -> str:
    """What the controller shows."""
    return world.folder.metrics_file.read_text(encoding="utf-8")
