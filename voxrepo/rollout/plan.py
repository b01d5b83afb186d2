"""What the controller wants of every server of a root, and what each of them says it has done. Files, replaced whole.

The folder is ``<root>/.voxrepo/rollouts``, the same for all servers (replicas) of the root, wherever each keeps its own
state: ``rollouts.db`` (controller and command line only), ``plan.json`` (written by the controller that holds the
lease), ``controllers/`` with a sign of life of each controller, ``controller.prom`` with numbers for the metrics page,
``samples/<rollout>/`` with audio that is kept for the report, and ``replicas/<name>/`` of each server with
``status.json``, ``observations/*.jsonl`` and ``pairs/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from voxrepo.rollout.finite import Count, Decibels, FiniteModel, Instant, Ratio, Seconds
from voxrepo.rollout.route import Route
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import StrictModel, write_text_atomically

Versions = dict[str, Annotated[int, Field(ge=1)]]
"""Version of each stage; complete."""

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100)]
"""What becomes a part of a path."""

ArmState = Literal["loading", "ready", "failed", "unloading"]
STATUS_INTERVAL_S = 1.0
"""How often a server says that it lives; the controller takes one for gone after :data:`STATUS_LIMIT_S`."""
STATUS_LIMIT_S = 15.0
"""Likewise for one that said so this much later than now: the clock was set back, and it would live until then."""

ModelT = TypeVar("ModelT", bound=StrictModel)


class RolloutFolder:
    """Paths of the files, given ``<root>/.voxrepo/rollouts``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "rollouts.db"
        self.plan_file = path / "plan.json"
        self.replicas = path / "replicas"
        self.controllers = path / "controllers"
        self.metrics_file = path / "controller.prom"
        self.samples = path / "samples"

    def replica(self, name: str) -> Path:
        """Folder of one server."""
        return self.replicas / name

    def status_file(self, name: str) -> Path:
        """What a server says of itself."""
        return self.replica(name) / "status.json"

    def observations(self, name: str) -> Path:
        """Folder into which the edge processes of a server write what they saw."""
        return self.replica(name) / "observations"

    def pairs(self, name: str) -> Path:
        """Folder into which they put pairs of audio to be compared."""
        return self.replica(name) / "pairs"


def metrics_file_of(replica: Path) -> Path:
    """The controller's numbers, given the folder of a server."""
    return RolloutFolder(replica.parents[1]).metrics_file


class PlannedVoice(FiniteModel):
    """What servers shall serve of one voice while a rollout concerns it.

    Attributes:
        rollout: its id.
        stable: versions that the voice itself shall have, whatever ``voice.yaml`` says meanwhile.
        arms: arms that shall be loaded beside it (``previous`` among them while it is kept), with all their versions.
        route: how requests are divided; arms that are not ready on a server get nothing there.
        resource_preserving: the memory does not suffice for both: a change of ``stable`` unloads the old versions
            first, and requests for the voice wait meanwhile. There are no arms then.
    """

    rollout: str
    stable: Versions
    arms: dict[str, Versions] = Field(default_factory=dict)
    route: Route | None = None
    resource_preserving: bool = False


class Plan(FiniteModel):
    """Attributes:
    generation: grows with every change.
    voices: voices that a rollout concerns; all others are as ``voice.yaml`` said at the server's start, or when they
        left the plan.
    """

    generation: Annotated[int, Field(ge=0)] = 0
    voices: dict[str, PlannedVoice] = Field(default_factory=dict)


class ArmStatus(FiniteModel):
    """One arm on one server. ``reason`` says why it failed, or why it was taken out after it had been ready."""

    state: ArmState
    versions: Versions
    reason: str = ""


class ReplicaVoice(FiniteModel):
    """One voice of the plan on one server.

    Attributes:
        stable: versions that it serves now.
        arms: by name.
        reason: why a change of ``stable`` failed; empty if none did.
    """

    stable: Versions
    arms: dict[str, ArmStatus] = Field(default_factory=dict)
    reason: str = ""


class ReplicaStatus(FiniteModel):
    """One server.

    Attributes:
        name: of the replica.
        pid: of its supervisor.
        updated_at: seconds since the epoch; renewed every :data:`STATUS_INTERVAL_S` while it lives.
        generation: newest plan that it has carried out: all arms are ready or failed, and all edge processes go by the
            routes. The plan's routes are in force on this server only then.
        phase: of the server, as ``voxrepo status`` shows it.
        voices: those of the plan.
        memory_free_bytes: that a new arm could take on the device its models run on; None if unknown.
    """

    name: str
    pid: int
    updated_at: float
    generation: int = 0
    phase: str = "starting"
    voices: dict[str, ReplicaVoice] = Field(default_factory=dict)
    memory_free_bytes: int | None = None

    def lives_at(self, now: float) -> bool:
        """Whether its last sign of life is recent."""
        return abs(now - self.updated_at) <= STATUS_LIMIT_S


class RequestSeen(FiniteModel):
    """One request that a voice under a rollout served: a line in ``observations/<worker>-<pid>-<number>.jsonl``.

    Attributes:
        at: end of the request, seconds since the epoch.
        rollout: id.
        voice: name.
        arm: that served it.
        outcome: as in the metric ``voxrepo_requests_total`` (``ok``, ``failed``, ``timed_out``, ``cancelled``,
            ``rejected``, ``invalid``).
        copy_of: ``""`` for a client's request; the arm that served the original if this was a copy for comparison.
        pinned: whether the client chose the arm, by name or by parameter.
        streamed: whether it was a stream.
        text_chars: length of the text.
        latency_s: arrival to the end of the answer.
        first_piece_s: of a stream.
        engine_s: seconds that its calls were in the engine, waits in line left out; the sum, where it takes several.
        underruns: of a stream: pieces that came too late for a player.
        audio_s: length of the audio.
        level_dbfs: RMS of the audio, over parts above the silence threshold.
        peak_dbfs: largest sample.
        clipped_ratio: samples at full scale.
        silence_ratio: 20 ms frames below the silence threshold.
    """

    at: Instant
    rollout: str
    voice: str
    arm: str
    outcome: str
    copy_of: str = ""
    pinned: bool = False
    streamed: bool = False
    text_chars: Count | None = None
    latency_s: Seconds
    first_piece_s: Seconds | None = None
    engine_s: Seconds | None = None
    underruns: Count = 0
    audio_s: Seconds | None = None
    level_dbfs: Decibels | None = None
    peak_dbfs: Decibels | None = None
    clipped_ratio: Ratio | None = None
    silence_ratio: Ratio | None = None


class PairSeen(FiniteModel):
    """A request spoken by two arms: ``pairs/<id>.json`` beside ``<id>.<arm>.wav`` for both; the JSON comes last.

    Attributes:
        id: of the request.
        at: seconds since the epoch.
        rollout: id.
        voice: name.
        arm: the arm that is judged; the other one is the stable arm.
        text: what was said.
        language: of the voice.
        seed: of both.
        speed: of both.
        speaker: of both.
        latency_s: of the judged arm.
        stable_latency_s: of the stable arm.
        fault: why one of the two has no audio; empty if both have.
    """

    id: FileName
    at: Instant
    rollout: FileName
    voice: str
    arm: FileName
    text: str
    language: str
    seed: int
    speed: float
    speaker: str
    latency_s: Seconds | None = None
    stable_latency_s: Seconds | None = None
    fault: str = ""


def read_json(file: Path, kind: type[ModelT]) -> ModelT | None:
    """Read one of these files; None if it does not exist.

    Raises:
        ConfigError: it cannot be read, or does not fit the schema.
    """
    try:
        return kind.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(f"{where}: {first['msg']}", file=file) from error


def write_json(file: Path, content: StrictModel) -> None:
    """Replace one of these files in one step.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(file, content.model_dump_json(indent=1))
