"""``voice.yaml``: the desired state of one voice.

It names the stages' versions and how they are batched and replicated; the ``config.pbtxt`` files are rendered from
it and never edited by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from voxrepo.repository.layout import Layout
from voxrepo_contract import SCHEMA_VERSION, yamlfile
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import is_model_name, stage_model_name
from voxrepo_contract.tensors import SPEED_MAX, SPEED_MIN
from voxrepo_contract.yamlfile import StrictModel

Count = Annotated[int, Field(ge=1, le=1024)]
Auto = Literal["auto"]


class StageSettings(StrictModel):
    """How one stage of a voice is served.

    Attributes:
        version: version directory that is served.
        instances: model instances (processes); ``auto`` fits them to the cores of the machine.
        threads: threads of each instance; ``auto`` likewise.
        max_batch_size: requests that Triton may hand over together; 1 switches dynamic batching off.
        unit_batch: units (segments, windows) per call of a graph; ``auto`` measures what is cheapest on a
            device, and is 1 on a CPU.
        max_queue_delay_us: how long Triton waits for a batch to fill.
        max_queue_size: requests that may wait; the next one is rejected at once (UNAVAILABLE, HTTP 503).
        queue_timeout_ms: requests that waited longer are rejected; 0 means no limit.
        device_ids: NPUs for graphs with ``device: npu``, taken by the instances in turn; none means device 0.
    """

    version: Annotated[int, Field(ge=1, le=999_999_999)]
    instances: Count | Auto = "auto"
    threads: Count | Auto = "auto"
    max_batch_size: Count = 1
    unit_batch: Count | Auto = "auto"
    max_queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    max_queue_size: Annotated[int, Field(ge=1, le=100_000)] = 256
    queue_timeout_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    device_ids: list[Annotated[int, Field(ge=0, le=1023)]] = Field(default_factory=list, max_length=1024)


class Stages(StrictModel):
    """Settings of the three stages."""

    text_frontend: StageSettings
    acoustic: StageSettings
    vocoder: StageSettings

    def items(self) -> list[tuple[str, StageSettings]]:
        """Stage names and settings in the order a request passes them."""
        return [("text_frontend", self.text_frontend), ("acoustic", self.acoustic), ("vocoder", self.vocoder)]


class Limits(StrictModel):
    """Bounds on what clients may ask for.

    Attributes:
        max_text_chars: characters (Unicode code points) of one request.
        speed_min: slowest speed, within the range that every voice can have.
        speed_max: fastest speed, likewise.
    """

    max_text_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    speed_min: Annotated[float, Field(ge=SPEED_MIN, le=1)] = SPEED_MIN
    speed_max: Annotated[float, Field(ge=1, le=SPEED_MAX)] = SPEED_MAX


class VoiceSpec(StrictModel):
    """A voice.

    Attributes:
        voice: its name, which is also the name of its folder and of the model that clients call.
        language: BCP 47 tag.
        sample_rate_hz: of the audio.
        speakers: names in the order of their ids; the first is the default.
        probe_text: spoken once after loading; the voice is offered only if audible speech comes back.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    voice: str
    language: str
    sample_rate_hz: Annotated[int, Field(ge=4000, le=192_000)]
    speakers: list[str] = Field(min_length=1)
    probe_text: Annotated[str, Field(min_length=1, max_length=200)] = "Ready."
    limits: Limits = Field(default_factory=Limits)
    stages: Stages

    @field_validator("voice")
    @classmethod
    def _name_is_safe(cls, name: str) -> str:
        if not is_model_name(name):
            raise ValueError("use letters, digits, '_', '-' and '.' only, starting with a letter, digit or '_'")
        return name

    @model_validator(mode="after")
    def _speakers_differ(self) -> VoiceSpec:
        if len(set(self.speakers)) != len(self.speakers):
            raise ValueError("speakers: every name may stand once")
        return self

    @property
    def versions(self) -> dict[str, int]:
        """Version of each stage."""
        return {stage: settings.version for stage, settings in self.stages.items()}

    def stage_models(self) -> dict[str, str]:
        """Stage name to Triton model name."""
        return {stage: stage_model_name(self.voice, stage) for stage, _ in self.stages.items()}


def read_voice(layout: Layout, voice: str) -> VoiceSpec:
    """Read ``ensembles/<voice>/voice.yaml``.

    Raises:
        ConfigError: the file is missing or wrong, or names another voice than its folder.
    """
    file = layout.voice_file(voice)
    spec = yamlfile.read(file, VoiceSpec)
    if spec.voice != voice:
        raise ConfigError(f"voice: is {spec.voice!r} in a folder named {voice!r}; make them equal", file=file)
    return spec


def write_voice(layout: Layout, spec: VoiceSpec) -> Path:
    """Write ``voice.yaml`` atomically and return its path."""
    file = layout.voice_file(spec.voice)
    file.parent.mkdir(parents=True, exist_ok=True)
    yamlfile.write(file, spec)
    return file
