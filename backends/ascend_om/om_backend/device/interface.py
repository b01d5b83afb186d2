"""The interface that every device runtime (``acl``, ``ais_bench``, ``torch_npu``) offers to the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from om_backend.device.description import DeviceMemory, GraphDescription

Array = npt.NDArray[np.generic]

PlaceOutput = Callable[[int, tuple[int, ...], np.dtype[np.generic]], Array]
"""Where output number ``index`` goes: called with its true shape and dtype, returns a C-contiguous writable array of
just that shape, into which the runtime copies (in the worker it lies in the shared memory of the answer)."""


class LoadedGraph(Protocol):
    """A graph on a device. Used by one thread at a time."""

    description: GraphDescription

    def run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        """Run once.

        Args:
            inputs: one array per input of the description, in its order, C-contiguous; for gear kinds of exactly one
                gear's dims.
            place: gives the arrays for the outputs; only the bytes of the true output shapes are copied out.

        Raises:
            DeviceFault: the call failed; its ``action`` says what must follow.
        """
        ...

    def close(self) -> None:
        """Unload and free everything; goes on after a step that fails; safe to call twice."""
        ...


class DeviceRuntime(Protocol):
    """One device opened by this process."""

    def load(self, file: Path, options: Mapping[str, str]) -> LoadedGraph:
        """Load a graph file.

        Raises:
            DeviceFault: with action ``REFUSE`` where the file or the memory does not allow it.
        """
        ...

    def memory(self) -> DeviceMemory:
        """Memory of the device now.

        Raises:
            DeviceFault: the device does not answer.
        """
        ...

    def close(self) -> None:
        """Close all graphs and the device; safe to call twice."""
        ...
