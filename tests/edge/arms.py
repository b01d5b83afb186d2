"""A voice with an arm before an engine that answers by arithmetic: what the other vocoder made has the other sign."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.engine_client import EngineClient
from voxrepo.edge.observing import Observer
from voxrepo.edge.table import EdgeTable, TableWatcher, VoiceEntry, write_table
from voxrepo.metrics.accounting import Accountant, RequestRecord
from voxrepo.metrics.registry import EdgeMetrics
from voxrepo.rollout.route import Route
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.tensors import AUDIO

from .fake_stages import VOICE, FakeStages, request_for
from .harness import voice

ARM = "candidate"
ARM_VERSIONS = {"text_frontend": 1, "acoustic": 3, "vocoder": 5}


def arm_entry(arm: str = ARM, **changes: object) -> VoiceEntry:
    """The row of an arm."""
    fields = {"voice": VOICE, "arm": arm, "versions": ARM_VERSIONS, **changes}
    return voice(f"{VOICE}.{arm}", **fields)


def canary(weight: float, **changes: object) -> Route:
    """A route that gives an arm ``weight`` percent."""
    fields: dict[str, object] = {"rollout": "r1", "policy": "canary", "weights": {ARM: weight}}
    return Route.model_validate({**fields, "labels": {"canary": ARM}, **changes})


@dataclass
class ArmStages(FakeStages):
    """The engine. Calls are named by model, those of stages with their version, as ``en-fake.vocoder:5``.

    Attributes:
        missing: what is not loaded.
        flipped: what gives audio of the other sign.
    """

    missing: set[str] = field(default_factory=set)
    flipped: set[str] = field(default_factory=lambda: {f"{VOICE}.{ARM}", f"{VOICE}.vocoder:5"})

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        rest = request.model_name.removeprefix(VOICE).removeprefix(".")
        stage = rest if rest in VOICE_STAGES else "ensemble"
        name = f"{request.model_name}:{request.model_version}" if stage == rest else request.model_name
        self.calls.append((name, request))
        await asyncio.sleep(self.delays_s.get(name, 0))
        if name in self.missing:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' is not found")
        refusal = self.fault(name, request)
        if refusal is not None:
            await context.abort(*refusal)
        response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
        asked = pb.ModelInferRequest()
        asked.CopyFrom(request)
        if stage == "vocoder":
            asked.model_version = "2"
        getattr(self, f"_{stage}")(asked, response)
        if name in self.flipped:
            index = [output.name for output in response.outputs].index(AUDIO.name)
            audio = np.frombuffer(response.raw_output_contents[index], "<i2")
            response.raw_output_contents[index] = (-audio).astype("<i2").tobytes()
        return response

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@dataclass
class ArmRig:
    """A data plane before such an engine."""

    stages: ArmStages
    engine: EngineClient
    plane: DataPlane
    tables: TableWatcher
    table_file: Path
    metrics: EdgeMetrics
    accountant: Accountant
    observer: Observer | None

    def change(self, **fields: object) -> None:
        """Replace the table."""
        write_table(self.table_file, self.tables.table.model_copy(update=fields))
        assert self.tables.refresh()

    def drop_arm(self) -> None:
        """Take the arm away, as the supervisor does: from the table, then from the engine."""
        voices = {name: entry for name, entry in self.tables.table.voices.items() if not entry.voice}
        self.change(voices=voices, routes={})
        self.stages.missing |= {f"{VOICE}.{ARM}", f"{VOICE}.vocoder:5"}

    async def ask(self, text: str = "hello", model: str = VOICE, key: str = "", **parameters: str) -> Any:
        """One unary call; the answer."""
        request = request_for(text, model=model)
        for name, value in parameters.items():
            request.parameters[name].string_param = value
        with self.accountant.request(model, "test") as record:
            record.routing_key = key
            return await self.plane.infer(request, record)

    async def listen(
        self,
        text: str = "hello",
        model: str = f"{VOICE}.stream",
        after_first: Callable[[], None] = lambda: None,
        **parameters: str,
    ) -> list[Any]:
        """One stream; its responses."""
        request = request_for(text, model=model)
        for name, value in parameters.items():
            request.parameters[name].string_param = value
        pieces = []
        with self.accountant.request(model, "test") as record:
            async for response, _ in self.plane.stream(request, record):
                pieces.append(response)
                if len(pieces) == 1:
                    after_first()
        return pieces


def key_of(arm: str, weight: float = 50.0) -> str:
    """A routing key that the route :func:`canary` gives to an arm."""
    from voxrepo.edge.routing import assigned_arm

    return next(f"user{n}" for n in range(1000) if assigned_arm("r1", {ARM: weight}, f"user{n}") == arm)


def arm_of(response: Any) -> tuple[str, dict[str, int]]:
    """What an answer says of who made it."""
    return response.parameters["arm"].string_param, json.loads(response.parameters["versions"].string_param)


def signed(samples: npt.NDArray[np.int16], arm: str) -> npt.NDArray[np.int16]:
    """The audio of an arm, given the stable one's."""
    return samples if arm == "stable" else (-samples).astype(np.int16)


@asynccontextmanager
async def arm_rig(
    folder: Path, route: Route | None = None, *, observes: bool = False, entry: VoiceEntry | None = None, **options: Any
) -> AsyncIterator[ArmRig]:
    """Start everything in this event loop."""
    stages = ArmStages()
    server = grpc.aio.server()
    rpc.add_GRPCInferenceServiceServicer_to_server(stages, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    table_file = folder / "table.json"
    other = entry or arm_entry()
    calls = {f"{VOICE}.{stage}": 4 for stage in VOICE_STAGES} | {VOICE: 4, other.name: 4}
    voices = {VOICE: stages.entry, other.name: other}
    routes = {VOICE: route} if route is not None else {}
    write_table(table_file, EdgeTable(generation=1, voices=voices, routes=routes, engine_calls=calls))
    tables = TableWatcher(table_file)

    def limit_of(model: str) -> int | None:
        return tables.table.engine_calls.get(model)  # of the newest table

    engine = EngineClient(f"127.0.0.1:{port}", limit_of)
    observer = Observer(folder / "replica", 0) if observes else None
    plane = DataPlane(engine, tables, observer=observer, **options)
    metrics = EdgeMetrics()
    accountant = Accountant(metrics, plane.is_model)
    try:
        yield ArmRig(stages, engine, plane, tables, table_file, metrics, accountant, observer)
    finally:
        await plane.close()
        await engine.drain(10)
        await engine.close()
        await server.stop(0)


def new_record(model: str = VOICE) -> RequestRecord:
    return RequestRecord(model, "test")
