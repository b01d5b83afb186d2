"""Objects behind handles that hold no device resource: data buffers, datasets, descriptors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from acl.emulation.dtypes import size_of
from acl.emulation.graph import GraphFacts
from acl.emulation.handles import Handled
from acl.emulation.state import ledger


@dataclass(eq=False)
class DataBuffer(Handled):
    """An address and a size; the memory is the user's."""

    address: int
    size: int

    what = "a data buffer"
    call = "acl.destroy_data_buffer"


@dataclass(eq=False)
class TensorDesc(Handled):
    """Data type, dims and format of a tensor."""

    acl_type: int
    dims: tuple[int, ...]
    acl_format: int
    name: str = ""
    ranges: tuple[tuple[int, int], ...] = ()

    what = "a tensor desc"
    call = "acl.destroy_tensor_desc"

    @property
    def element_count(self) -> int:
        """Number of elements, 0 while a size is not known."""
        return 0 if any(dim < 0 for dim in self.dims) else math.prod(self.dims)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.element_count * size_of(self.acl_type)


@dataclass(eq=False)
class Dataset(Handled):
    """Data buffers in order, and the tensor descs set for them or made by a run."""

    buffers: list[DataBuffer] = field(default_factory=list)
    descs: dict[int, TensorDesc] = field(default_factory=dict)

    what = "a dataset"
    call = "acl.mdl.destroy_dataset"

    def replace_desc(self, index: int, desc: TensorDesc | None) -> None:
        """Put a desc that the dataset owns at an index; the old one's handle is dead from now on."""
        old = self.descs.pop(index, None)
        if old is not None:
            ledger.handles.remove(old)
        if desc is not None:
            self.descs[index] = ledger.handles.add(desc, owned=False)


@dataclass(eq=False)
class ModelDesc(Handled):
    """A model descriptor; empty until ``get_desc``.

    Attributes:
        facts: of the model.
        model: its id, 0 where it was described from a file.
    """

    facts: GraphFacts | None = None
    model: int = 0

    what = "a model desc"
    call = "acl.mdl.destroy_desc"


@dataclass(eq=False)
class LoadConfig(Handled):
    """Attributes for ``load_with_config``."""

    values: dict[int, int | str] = field(default_factory=dict)

    what = "a load config"
    call = "acl.mdl.destroy_config_handle"


@dataclass(eq=False)
class ExecConfig(Handled):
    """Attributes for ``execute_v2``."""

    values: dict[int, int] = field(default_factory=dict)

    what = "an execution config"
    call = "acl.mdl.destroy_exec_config_handle"
