"""What an OM file says of itself, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["static", "batch_gears", "dims_gears", "image_gears", "range"]
"""How the shapes vary: not at all; over batch sizes; over joint sizes of all inputs; over image sizes; freely."""

GEAR_INPUT = "ascend_mbatch_shape_data"
"""Name of the extra input through which AscendCL tells a model with gears which one to run."""

UNBOUNDED = -1
CURRENT_VERSION = 0x2000_0000
"""Version in the header of files that have the flags for dynamic models."""


@dataclass(frozen=True)
class Header:
    """The file's first 256 bytes.

    Attributes:
        version: of the format; ``0x20000000`` today.
        model_type: 0 graph model, 1 standard model; others are refused.
        name: of the model, up to 32 characters.
        sub_model_count: models in the file; more than one if parts of a dynamic graph are static.
        content_bytes: bytes after the header.
        wide_tables: whether offsets and sizes in the partition tables take 64 bits.
        needs_host_check: whether the file runs only on the host system and CPU it was built for.
        is_dynamic: the header's own flag for graphs with unknown shapes.
        platform: version text of the platform, "" if not written.
    """

    version: int
    model_type: int
    name: str
    sub_model_count: int
    content_bytes: int
    wide_tables: bool
    needs_host_check: bool
    is_dynamic: bool
    platform: str = ""

    @property
    def runs_dynamic(self) -> bool:
        """Whether CANN runs it with the executor for dynamic shapes, by the rule of CANN's own loader."""
        return self.version >= CURRENT_VERSION and (self.sub_model_count > 1 or self.is_dynamic)


@dataclass(frozen=True)
class Partition:
    """A part of a sub-model.

    Attributes:
        type: its number.
        name: e.g. ``WEIGHTS``; ``TYPE_<number>`` if unknown.
        offset: of its first byte in the file.
        size_bytes: its length.
    """

    type: int
    name: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class OmTensor:
    """An input or output.

    Attributes:
        name: as AscendCL gives it.
        dtype: Open Inference Protocol name where there is one, else e.g. ``BF16``, ``INT4``.
        dims: sizes, -1 where they vary; of an output with gears, those of the largest gear.
        format: order of the axes, ``ND`` for speech models.
        size_bytes: of a buffer, for the largest gear; 0 if not known before a run.
        ranges: lowest and highest size per axis, highest -1 if unbounded; empty unless built for ranges.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    format: str = "ND"
    size_bytes: int = 0
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Attributes:
    """What the builder wrote about a sub-model. Texts are "" and numbers None where the file does not say.

    Attributes:
        soc_version: chip, e.g. ``Ascend910B3``.
        opp_version: version of the operator package.
        atc_version: version of ATC.
        atc_cmdline: the command, without its quotes.
        framework: number of the framework converted from; 5 is ONNX.
        host_os: host that the code inside is for, e.g. ``linux``.
        host_cpu: e.g. ``aarch64``.
        memory_bytes: work memory on the device.
        weight_bytes: weights on the device.
        stream_count: streams it takes.
        om_info: bytes of weights, kernels, AI-CPU kernels, task list and operator libraries in the file.
        compressed_attributes: whether the names of attributes inside the graph are replaced by numbers.
    """

    soc_version: str = ""
    opp_version: str = ""
    atc_version: str = ""
    atc_cmdline: str = ""
    framework: str = ""
    host_os: str = ""
    host_cpu: str = ""
    memory_bytes: int | None = None
    weight_bytes: int | None = None
    stream_count: int | None = None
    om_info: tuple[int, ...] = ()
    compressed_attributes: bool = False


@dataclass(frozen=True)
class SubModel:
    """One of the models in a file; the first is the one that is called."""

    index: int
    name: str
    partitions: tuple[Partition, ...]
    attributes: Attributes

    def size_of(self, partition: str) -> int:
        """Bytes of the partitions of that name together, 0 if there is none."""
        return sum(part.size_bytes for part in self.partitions if part.name == partition)


@dataclass(frozen=True)
class OmFile:
    """An OM file.

    Attributes:
        file: its name.
        size_bytes: its length.
        header: its header.
        sub_models: at least one.
        inputs: in the model's order, without the hidden gear input.
        outputs: in the model's order.
        gear_input: the hidden input of models with gears.
        kind: how shapes vary, as far as the file tells; AscendCL's own answer after loading counts.
        gears: for kinds with gears, each one as input name -> its dims, every input named; empty also where an old
            file tells that there are gears, but not which.
        shape_order: order of the inputs in ATC's ``--input_shape``, which the sizes of a gear follow.
        dynamic_outputs: how CANN wrote the output sizes of each gear, unparsed.
        precision: precision mode in ATC's newer vocabulary (``fp16``, ``origin``, ``mixed_float16`` ...), "" if the
            file does not hold the command it was made with.
        precision_is_default: the command does not name a precision, so ATC's default ``fp16`` was used.
        virtual_type: whether built for slices of a chip (vNPU); None if the file does not say.
        external_weights: whether the weights lie in separate files beside the model.
    """

    file: str
    size_bytes: int
    header: Header
    sub_models: tuple[SubModel, ...]
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    kind: Kind
    gear_input: OmTensor | None = None
    gears: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    shape_order: tuple[str, ...] = ()
    dynamic_outputs: tuple[str, ...] = ()
    precision: str = ""
    precision_is_default: bool = False
    virtual_type: bool | None = None
    external_weights: bool = False
    attributes: Attributes = field(default_factory=Attributes)

    @property
    def soc(self) -> str:
        """Chip the file was built for, "" if it does not say."""
        return self.attributes.soc_version

    @property
    def memory_bytes(self) -> int:
        """Work memory on the device of all sub-models, as far as the file tells; ranges need more, by shape."""
        return sum(sub.attributes.memory_bytes or 0 for sub in self.sub_models)

    @property
    def weight_bytes(self) -> int:
        """Weights on the device of all sub-models."""
        return sum(max(sub.attributes.weight_bytes or 0, sub.size_of("WEIGHTS")) for sub in self.sub_models)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with everything, and the sums."""
        return {
            **asdict(self),
            "soc": self.soc,
            "memory_bytes": self.memory_bytes,
            "weight_bytes": self.weight_bytes,
            "runs_dynamic": self.header.runs_dynamic,
        }
