"""A stand-in for the Python part of Ascend's ais_bench, as documented; see ``aclruntime`` beside it."""

from __future__ import annotations

from typing import Any

import aclruntime  # type: ignore[import-not-found]  # the stand-in beside it, where tests put it on the path
import numpy as np


class InferSession:
    def __init__(
        self, device_id: int, model_path: str, acl_json_path: str | None = None, debug: bool = False, loop: int = 1
    ) -> None:
        if not isinstance(model_path, str) or not isinstance(device_id, int):
            raise TypeError("device_id must be int and model_path str")
        self.session = aclruntime.InferenceSession(model_path, device_id, aclruntime.session_options())
        self._modes = {
            "static": self._static,
            "dymbatch": self._batch,
            "dymhw": self._refuse_images,
            "dymdims": self._dims,
            "dymshape": self._shape,
        }

    def get_inputs(self) -> Any:
        return self.session.get_inputs()

    def get_outputs(self) -> Any:
        return self.session.get_outputs()

    def set_context(self) -> None:
        self.session.set_context()

    def summary(self) -> Any:
        return self.session.sumary()

    def reset_summaryinfo(self) -> None:
        self.session.reset_sumaryinfo()

    def free_resource(self) -> None:
        self.session.free_resource()

    @staticmethod
    def finalize() -> None:
        aclruntime.InferenceSession.finalize()

    def infer(self, feeds: Any, mode: str = "static", custom_sizes: Any = 100000, out_array: bool = True) -> Any:
        for feed in feeds:
            if type(feed) is not np.ndarray:
                raise RuntimeError(f"type:{type(feed)} invalid")
        if mode not in self._modes:
            raise RuntimeError(f"wrong infer_mode:{mode}")
        self._modes[mode]([feed.shape for feed in feeds], custom_sizes)
        addresses = [aclruntime.BaseTensor(feed.__array_interface__["data"][0], feed.nbytes) for feed in feeds]
        outputs = self.session.run([entry.name for entry in self.get_outputs()], addresses)
        if not out_array:
            return outputs
        for output in outputs:
            output.to_host()
        return [np.array(output) for output in outputs]

    def _static(self, shapes: Any, sizes: Any) -> None:
        self.session.set_staticbatch()

    def _batch(self, shapes: Any, sizes: Any) -> None:
        for shape, entry in zip(shapes, self.get_inputs(), strict=True):
            for size, built in zip(shape, entry.shape, strict=True):
                if built < 0:
                    self.session.set_dynamic_batchsize(size)
                    return
        raise RuntimeError("not a dymbatch model!")

    def _refuse_images(self, shapes: Any, sizes: Any) -> None:
        raise RuntimeError("not a dymhw model!")

    def _dims(self, shapes: Any, sizes: Any) -> None:
        self.session.set_dynamic_dims(self._text(shapes))

    def _shape(self, shapes: Any, sizes: Any) -> None:
        self.session.set_dynamic_shape(self._text(shapes))
        outputs = self.get_outputs()
        if isinstance(sizes, int):
            sizes = [sizes] * len(outputs)
        elif not isinstance(sizes, list):
            raise RuntimeError(f"custom_sizes:{sizes} type:{type(sizes)} invalid")
        self.session.set_custom_outsize(sizes)

    def _text(self, shapes: Any) -> str:
        entries = self.get_inputs()
        return ";".join(f"{e.name}:{','.join(map(str, s))}" for s, e in zip(shapes, entries, strict=True))
