"""Datasets: the lists of buffers that a run takes and fills."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from om_backend.acl.calls import Calls
from om_backend.acl.owned import Owned


class Datasets:
    """The input and the output dataset of one graph, made once.

    Attributes:
        inputs: handle of the input dataset.
        outputs: handle of the output dataset.
        input_buffers: data buffer handles by input number.
        output_buffers: data buffer handles by output number.
    """

    def __init__(
        self,
        load: Calls,
        close: Calls,
        owned: Owned,
        inputs: Mapping[int, tuple[int, int]],
        outputs: Mapping[int, tuple[int, int]],
    ) -> None:
        """Make both datasets.

        Args:
            load: calls to make them with.
            close: calls to release them with.
            owned: gets the releases: data buffers go before datasets.
            inputs: device address and size in bytes by input number, the hidden gear input among them.
            outputs: the same by output number.

        Raises:
            DeviceFault: AscendCL refused.
        """
        self.inputs = self._dataset(load, close, owned, "input")
        self.outputs = self._dataset(load, close, owned, "output")
        self.input_buffers = self._fill(load, close, owned, self.inputs, inputs)
        self.output_buffers = self._fill(load, close, owned, self.outputs, outputs)

    @staticmethod
    def _dataset(load: Calls, close: Calls, owned: Owned, side: str) -> int:
        handle = load.handle("mdl.create_dataset")
        owned.add(f"{side} dataset", partial(close.do, "mdl.destroy_dataset", handle))
        return handle

    @staticmethod
    def _fill(
        load: Calls, close: Calls, owned: Owned, dataset: int, places: Mapping[int, tuple[int, int]]
    ) -> dict[int, int]:
        handles = {}
        for index in sorted(places):  # the order of adding is the number of the tensor
            handle = load.handle("create_data_buffer", *places[index])
            owned.add(f"data buffer {index}", partial(close.do, "destroy_data_buffer", handle))
            load.get("mdl.add_dataset_buffer", dataset, handle)
            handles[index] = handle
        return handles
