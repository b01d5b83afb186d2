"""A gRPC server that answers like the stages of a voice, by arithmetic, so that order and equality show in the samples.

Sentences end with a full stop; each is a segment. Sample ``i`` of a segment is a function of seed, segment and ``i``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
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
from voxrepo.edge.table import EdgeTable, TableWatcher, VoiceEntry, write_table
from voxrepo_contract.pieces import opening_frames, pause_samples
from voxrepo_contract.tensors import AUDIO, DROPPED, SAMPLE_RATE

from .harness import voice

FRAMES_PER_CHAR = 3
PAUSE_MS = 20
VOICE = "en-fake"


def sentences_of(text: str) -> list[str]:
    return [part.strip() for part in text.split(".") if part.strip()]


def segment_audio(seed: int, segment: int, sentence: str, entry: VoiceEntry) -> npt.NDArray[np.int16]:
    """The whole audio of one segment."""
    if sentence == "silent":
        return np.zeros(len(sentence) * FRAMES_PER_CHAR * entry.hop_length_samples, np.int16)
    samples = np.arange(len(sentence) * FRAMES_PER_CHAR * entry.hop_length_samples, dtype=np.int64)
    return ((samples * 7919 + seed * 104729 + segment * 1299709) % 60_000 - 30_000).astype(np.int16)


def whole_audio(text: str, seed: int, entry: VoiceEntry) -> npt.NDArray[np.int16]:
    """What a unary request is answered."""
    parts = []
    for segment, sentence in enumerate(sentences_of(text)):
        parts += [segment_audio(seed, segment, sentence, entry), np.zeros(pause_samples(PAUSE_MS, 22050), np.int16)]
    return np.concatenate(parts)


def tensor(response: Any, name: str, datatype: str, array: npt.NDArray[Any]) -> None:
    response.outputs.add(name=name, datatype=datatype, shape=array.shape)
    response.raw_output_contents.append(array.tobytes())


def read(request: Any, name: str, dtype: str) -> npt.NDArray[Any]:
    index = [given.name for given in request.inputs].index(name)
    return np.frombuffer(request.raw_input_contents[index], dtype)


@dataclass
class FakeStages(rpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """The engine.

    Attributes:
        calls: calls by stage, in the order of their arrival.
        delays_s: by stage.
        fault: looks at each call; what it returns is the status and text of a refusal.
    """

    entry: VoiceEntry = field(default_factory=lambda: voice(VOICE))
    calls: list[tuple[str, Any]] = field(default_factory=list)
    delays_s: dict[str, float] = field(default_factory=dict)
    fault: Callable[[str, Any], tuple[grpc.StatusCode, str] | None] = lambda stage, request: None
    running: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    def count(self, stage: str) -> int:
        return sum(called == stage for called, _ in self.calls)

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        stage = request.model_name.removeprefix(VOICE).removeprefix(".") or "ensemble"
        self.calls.append((stage, request))
        self.running[stage] += 1
        self.most[stage] = max(self.most[stage], self.running[stage])
        try:
            await asyncio.sleep(self.delays_s.get(stage, 0))
            refusal = self.fault(stage, request)
            if refusal is not None:
                await context.abort(*refusal)
            response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
            getattr(self, f"_{stage}")(request, response)
            return response
        finally:
            self.running[stage] -= 1

    def _text(self, request: Any) -> str:
        return bytes(read(request, "text", "u1")[4:]).decode()

    def _dropped(self, text: str, response: Any) -> None:
        raw = json.dumps({"emoji": text.count("~")} if "~" in text else {}).encode()
        response.outputs.add(name=DROPPED.name, datatype="BYTES", shape=(1, 1))
        response.raw_output_contents.append(len(raw).to_bytes(4, "little") + raw)

    def _ensemble(self, request: Any, response: Any) -> None:
        text = self._text(request)
        seed = int(read(request, "seed", "<i8")[0])
        tensor(response, AUDIO.name, "INT16", whole_audio(text, seed, self.entry)[np.newaxis])
        tensor(response, SAMPLE_RATE.name, "INT32", np.array([[22050]], "<i4"))
        self._dropped(text, response)

    def _text_frontend(self, request: Any, response: Any) -> None:
        assert request.model_version == "1"
        text = self._text(request)
        sentences = [sentence.encode() for sentence in sentences_of(text)]
        tensor(response, "phoneme_ids", "INT64", np.array([list(b"".join(sentences))], "<i8"))
        tensor(response, "segment_lengths", "INT32", np.array([[len(sentence) for sentence in sentences]], "<i4"))
        tensor(response, "pause_ms", "INT32", np.full((1, len(sentences)), PAUSE_MS, "<i4"))
        tensor(response, "speed", "FP32", read(request, "speed", "<f4")[np.newaxis])
        tensor(response, "speaker_id", "INT64", np.array([[0]], "<i8"))
        tensor(response, "seed", "INT64", read(request, "seed", "<i8")[np.newaxis])
        self._dropped(text, response)

    def _acoustic(self, request: Any, response: Any) -> None:
        assert request.model_version == "3"
        sentence = bytes(read(request, "phoneme_ids", "<i8").astype("u1")).decode()
        assert read(request, "segment_lengths", "<i4").tolist() == [len(sentence)]
        assert read(request, "pause_ms", "<i4").tolist() == [PAUSE_MS]
        seed, segment = int(read(request, "seed", "<i8")[0]), request.parameters["first_segment"].int64_param
        audio = segment_audio(seed, segment, sentence, self.entry)
        # the audio itself travels in the features, hidden in the first channels of each frame
        features = np.zeros((1, len(sentence) * FRAMES_PER_CHAR, self.entry.channels), "<f4")
        features[0, :, 0] = audio[:: self.entry.hop_length_samples]
        features[0, :, 1] = np.arange(features.shape[1])
        features[0, :, 2] = 0.0 if sentence == "silent" else 1.0
        tensor(response, "features", "FP32", features)
        tensor(response, "frame_lengths", "INT32", np.array([[features.shape[1]]], "<i4"))
        tensor(response, "pause_ms", "INT32", np.array([[PAUSE_MS]], "<i4"))

    def _vocoder(self, request: Any, response: Any) -> None:
        assert request.model_version == "2"
        entry = self.entry
        features = read(request, "features", "<f4").reshape(-1, entry.channels)
        total, first, keep = (
            request.parameters[name].int64_param for name in ("segment_frames", "first_frame", "keep_from_frame")
        )
        assert features[:, 1].tolist() == list(range(first, first + len(features))), "other frames than it says"
        stop = self._kept_to(total, first, first + len(features), keep)
        kept = features[keep - first : stop - first]
        hop = np.arange(entry.hop_length_samples, dtype=np.int64) * 7919
        samples = (kept[:, :1].astype(np.int64) + 30_000 + hop) % 60_000 - 30_000
        audio = (samples * kept[:, 2:3].astype(np.int64)).astype("<i2").reshape(1, -1)
        tensor(response, AUDIO.name, "INT16", audio)
        tensor(response, SAMPLE_RATE.name, "INT32", np.array([[22050]], "<i4"))

    def _kept_to(self, total: int, first: int, stop: int, keep: int) -> int:
        """End of the windows that lie in the frames sent and begin with ``keep``; fails if there are none."""
        entry = self.entry
        size = (
            opening_frames(total, entry.first_window_frames, entry.window_frames) if keep == 0 else entry.window_frames
        )
        end = keep
        while end < total:
            begin = max(end - entry.overlap_frames, 0)
            if begin + size >= total:
                begin, size = max(0, total - entry.window_frames) if end else 0, total
            if begin < first or min(begin + size, total) > stop:
                break
            end = total if begin + size >= total else begin + size - entry.overlap_frames
            size = entry.window_frames
        assert end > keep, f"no window from {keep} of {total} lies in [{first}, {stop})"
        return end


@dataclass
class Rig:
    """A data plane before such an engine."""

    stages: FakeStages
    engine: EngineClient
    plane: DataPlane
    table_file: Path
    tables: TableWatcher

    async def until(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Wait until ``condition`` holds."""
        ends_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < ends_s
            await asyncio.sleep(0.005)

    def hold(self, *names: str) -> None:
        write_table(self.table_file, self.tables.table.model_copy(update={"held": list(names)}))
        self.tables.refresh()


@asynccontextmanager
async def rig(folder: Path, **options: Any) -> AsyncIterator[Rig]:
    """Start everything in this event loop."""
    stages = FakeStages()
    server = grpc.aio.server()
    rpc.add_GRPCInferenceServiceServicer_to_server(stages, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    table_file = folder / "table.json"
    calls = {f"{VOICE}.{stage}": 4 for stage in ("text_frontend", "acoustic", "vocoder")}
    write_table(table_file, EdgeTable(generation=1, voices={VOICE: stages.entry}, engine_calls={VOICE: 4, **calls}))
    tables = TableWatcher(table_file)
    engine = EngineClient(f"127.0.0.1:{port}", tables.table.engine_calls.get)
    try:
        yield Rig(stages, engine, DataPlane(engine, tables, **options), table_file, tables)
    finally:
        await engine.drain(10)
        await engine.close()
        await server.stop(0)


def request_for(text: str, seed: int = 5, model: str = f"{VOICE}.stream", request_id: str = "") -> Any:
    """A client's request."""
    request = pb.ModelInferRequest(model_name=model, id=request_id)
    raw = text.encode()
    request.inputs.add(name="text", datatype="BYTES", shape=(1, 1))
    request.raw_input_contents.append(len(raw).to_bytes(4, "little") + raw)
    request.inputs.add(name="seed", datatype="INT64", shape=(1, 1))
    request.raw_input_contents.append(np.array([seed], "<i8").tobytes())
    return request


def audio_of(response: Any) -> npt.NDArray[np.int16]:
    """The audio in a ``ModelInferResponse``."""
    names = [output.name for output in response.outputs]
    return np.frombuffer(response.raw_output_contents[names.index("audio")], "<i2")
