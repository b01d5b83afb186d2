"""Triton's entry into the ``ascend_om`` backend: requests in, jobs to the stage program, answers out.

Answers go through each request's response sender as soon as they are ready, so that a short request does not wait
for a long one that shares its batch. Before each, and before ``execute`` returns, it is asked whether the engine may
have given this stub up: a late answer would harm others (:mod:`voxrepo_contract.heartbeat`). No exception may leave
``execute`` once a sender was used: Triton 2.51 answers that with a segmentation fault.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from om_backend.device.settings import device_mode
from om_backend.job import Job
from om_backend.metrics import DeviceMetrics
from om_backend.parameters import device_of, read_parameters
from om_backend.programs import load_program
from om_backend.runtime import Array, Graph, RuntimeSettings
from om_backend.workers import Workers

from voxrepo_contract.errors import Internal, VoxrepoError
from voxrepo_contract.heartbeat import Heartbeat
from voxrepo_contract.stub_identity import identify

METRICS_EVERY_S = 1.0
MEMORY_EVERY_S = 10.0


def triton_error(error: VoxrepoError) -> Any:
    """The ``TritonError`` for one of ours."""
    # looked up here: the stub adds the class after this module was imported
    return pb_utils.TritonError(error.message, getattr(pb_utils.TritonError, error.triton_code))


class TritonPythonModel:
    """One instance of one version of a model."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load and warm up. A failure here is a clean refusal to load, with its text in the model's state."""
        identify(args.get("model_name", ""), args["model_version"])
        config = json.loads(args["model_config"])
        version_dir = Path(args["model_repository"]) / args["model_version"]
        instance = args["model_instance_name"]
        self._name = f"{instance} version {args['model_version']}"
        self._input_names = [tensor["name"] for tensor in config["input"]]
        self._metrics = DeviceMetrics(
            pb_utils,
            {"model": args.get("model_name", ""), "version": args["model_version"], "instance": instance},
        )
        self._metrics_due_s = self._memory_due_s = 0.0
        self._workers: Workers | None = None
        self._heartbeat: Heartbeat | None = None
        self._begun = 0.0
        try:
            heartbeat = Heartbeat.of_environment()
            parameters = read_parameters(config)
            mode = device_mode()
            device_id = device_of(parameters, instance, config.get("instance_group", []))
            self._workers = Workers(
                mode, device_id, parameters.watchdog_ms, self._log, self._metrics, threads=parameters.threads
            )
            settings = RuntimeSettings(
                threads=parameters.threads,
                opening_threads=parameters.opening_threads,
                runtime=parameters.runtime,
                mode=mode,
                worker=self._workers.get,
                options=parameters.options,
                loaded=self._loaded,
                max_batch_size=int(config.get("max_batch_size", 0)),
            )
            self._program = load_program(version_dir, settings, parameters.unit_batch)
            costs = self._program.warm_up()
        except VoxrepoError as error:
            self.finalize()
            raise pb_utils.TritonModelException(error.message) from error
        except BaseException:
            self.finalize()
            raise
        rejections = getattr(self._program, "rejections", None)
        if rejections is not None:
            rejections.on_rejected = self._metrics.rejected
        self._log("info", f"{parameters.threads} threads, {costs}")
        self._report()
        self._heartbeat = heartbeat.start()

    def execute(self, requests: list[Any]) -> None:
        """Answer every request of a batch through its sender."""
        assert self._heartbeat is not None
        self._begun = self._heartbeat.mark()
        jobs: list[Job] = []
        for request in requests:
            sender = request.get_response_sender()
            try:
                jobs.append(self._job(request, sender))
            except Exception as error:
                self._send(
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
        self._report()
        self._heartbeat.leave_if_given_up(self._begun, self._name)

    def is_ready(self) -> bool:
        """Whether requests can be served now. Newer engines ask; 2.51 does not, there requests are refused."""
        return self._workers is None or self._workers.are_ready

    def finalize(self) -> None:
        """End the device workers."""
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._workers is not None:
            self._workers.close()
        self._metrics.close()

    def _job(self, request: Any, sender: Any) -> Job:
        inputs: dict[str, Array] = {}
        for name in self._input_names:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                inputs[name] = tensor.as_numpy()
        parameters = json.loads(request.parameters() or "{}")

        def finish(outputs: Mapping[str, Array]) -> None:
            made = [pb_utils.Tensor(name, np.ascontiguousarray(value)) for name, value in outputs.items()]
            self._send(sender, pb_utils.InferenceResponse(output_tensors=made))

        def fail(error: VoxrepoError) -> None:
            self._send(sender, pb_utils.InferenceResponse(error=triton_error(error)))

        return Job(inputs, parameters, finish, fail)

    def _loaded(self, file: Path, where: str, graph: Graph) -> None:
        memory = None if graph.description is None else graph.description.memory
        self._metrics.graph_loaded(file.name, where, memory)
        self._log("info", f"{file.name} runs in {where}")

    def _log(self, level: str, line: str) -> None:
        getattr(pb_utils.Logger, f"log_{level}")(f"{self._name}: {line}")

    def _report(self) -> None:
        """Metrics, now and then, when all requests of a batch have their answers."""
        now = time.monotonic()
        if now < self._metrics_due_s:
            return
        self._metrics_due_s = now + METRICS_EVERY_S
        try:
            if now >= self._memory_due_s and self._workers is not None:
                self._memory_due_s = now + MEMORY_EVERY_S
                for worker in self._workers.all:
                    memory = worker.memory()
                    if memory is not None:
                        self._metrics.device_memory(worker.settings.device_id, memory)
            self._metrics.flush()
        except Exception as error:
            self._log("error", f"metrics could not be written: {error}")

    def _send(self, sender: Any, response: Any) -> None:
        assert self._heartbeat is not None
        self._heartbeat.leave_if_given_up(self._begun, self._name)
        try:
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        except Exception as error:
            pb_utils.Logger.log_error(f"an answer could not be sent: {error}")
