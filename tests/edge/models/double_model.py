"""A model that is no voice: ``y = 2 x``, and ``name`` reversed."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            names = pb_utils.get_input_tensor_by_name(request, "name").as_numpy()
            backwards = np.array([name[::-1] for name in names], dtype=np.object_)
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("y", x * np.float32(2)), pb_utils.Tensor("eman", backwards)]
                )
            )
        return responses
