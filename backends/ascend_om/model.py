"""Triton's entry into the ``ascend_om`` backend: requests in, jobs to the stage program, answers out.

Answers go through each request's response sender as soon as they are ready, so that a short request does not wait
for a long one that shares its batch. No exception may leave ``execute`` once a sender was used: Triton 2.51 answers
that with a segmentation fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from om_backend.job import Job
from om_backend.programs import load_program
from om_backend.runtime import Array, RuntimeSettings

from voxrepo_contract.errors import Internal, VoxrepoError


def triton_error(error: VoxrepoError) -> Any:
    """The ``TritonError`` for one of ours."""
    # looked up here: the stub adds the class after this module was imported
    return pb_utils.TritonError(error.message, getattr(pb_utils.TritonError, error.triton_code))


class TritonPythonModel:
    """One instance of one version of a model."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load and warm up. A failure here is a clean refusal to load, with its text in the model's state."""
        config = json.loads(args["model_config"])
        parameters = {name: value["string_value"] for name, value in config.get("parameters", {}).items()}
        settings = RuntimeSettings(threads=int(parameters.get("threads", "1")))
        unit_batch = parameters.get("unit_batch", "auto")
        version_dir = Path(args["model_repository"]) / args["model_version"]
        self._input_names = [tensor["name"] for tensor in config["input"]]
        try:
            self._program = load_program(version_dir, settings, None if unit_batch == "auto" else int(unit_batch))
            costs = self._program.warm_up()
        except VoxrepoError as error:
            raise pb_utils.TritonModelException(error.message) from error
        name = f"{args['model_instance_name']} version {args['model_version']}"
        pb_utils.Logger.log_info(f"{name}: {settings.threads} threads, {costs}")

    def execute(self, requests: list[Any]) -> None:
        """Answer every request of a batch through its sender."""
        jobs: list[Job] = []
        for request in requests:
            sender = request.get_response_sender()
            try:
                jobs.append(self._job(request, sender))
            except Exception as error:
                _send(
                    sender,
                    pb_utils.InferenceResponse(error=triton_error(Internal(f"unreadable request: {error}"))),
                )
        try:
            self._program.run(jobs)
        except Exception as error:
            pb_utils.Logger.log_error(f"the stage program raised {type(error).__name__}: {error}")
            fault = Internal(f"the stage program failed: {type(error).__name__}: {error}")
            for job in jobs:
                job.fail(fault)
        for job in jobs:
            # a request without an answer would hang its caller for ever
            job.fail(Internal("the stage program left this request unanswered"))

    def _job(self, request: Any, sender: Any) -> Job:
        inputs: dict[str, Array] = {}
        for name in self._input_names:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                inputs[name] = tensor.as_numpy()
        parameters = json.loads(request.parameters() or "{}")

        def finish(outputs: Mapping[str, Array]) -> None:
            made = [pb_utils.Tensor(name, np.ascontiguousarray(value)) for name, value in outputs.items()]
            _send(sender, pb_utils.InferenceResponse(output_tensors=made))

        def fail(error: VoxrepoError) -> None:
            _send(sender, pb_utils.InferenceResponse(error=triton_error(error)))

        return Job(inputs, parameters, finish, fail)

    def finalize(self) -> None:
        """Nothing to release beyond what the process holds."""


def _send(sender: Any, response: Any) -> None:
    try:
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    except Exception as error:
        pb_utils.Logger.log_error(f"an answer could not be sent: {error}")
