"""From a file to a graph on the device: checks first, then the load, then its buffers; all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from om_backend.acl.budget import buffers_bytes, check_budget
from om_backend.acl.descriptor import Descriptor, read_descriptor
from om_backend.acl.files import FileFacts, read_facts
from om_backend.acl.fixed_graph import FixedGraph
from om_backend.acl.graph import STREAM, AclGraph, LoadedModel
from om_backend.acl.memory import device_memory
from om_backend.acl.options import Options, read_options
from om_backend.acl.owned import Owned
from om_backend.acl.range_graph import FIRST_OUTPUT_BYTES, RangeGraph, first_input_bytes, first_output_bytes
from om_backend.acl.session import Session, named
from om_backend.device.description import GraphDescription, MemoryNeed
from om_backend.device.faults import DeviceFault


def load_graph(session: Session, file: Path, options: Mapping[str, str]) -> AclGraph:
    """Load a graph.

    Raises:
        DeviceFault: ``REFUSE`` where the file, the chip or the memory does not allow it; nothing is left behind.
    """
    owned = Owned(file.name)
    try:
        return _load(session, file, read_options(options), owned)
    except DeviceFault as fault:
        session.note(fault)
        _give_back(session, owned)
        raise named(fault, file.name) from fault
    except BaseException:
        _give_back(session, owned)
        raise


def _give_back(session: Session, owned: Owned) -> None:
    for fault in owned.release():
        session.note(fault)


def _load(session: Session, file: Path, options: Options, owned: Owned) -> AclGraph:
    calls = session.load
    session.enter(calls)
    facts = read_facts(file, emulator=session.emulator, soc=session.soc)
    need = _need(session, file, facts, options)
    check_budget(file.name, need, device_memory(calls), options.memory_reserve_bytes)

    stream = int(calls.get("rt.create_stream"))
    owned.add(STREAM, partial(session.close.do, "rt.destroy_stream", stream))
    desc = calls.handle("mdl.create_desc")
    owned.add("descriptor", partial(session.close.do, "mdl.destroy_desc", desc))
    model = int(calls.get("mdl.load_from_file", str(file)))
    owned.add("model", partial(session.close.do, "mdl.unload", model))
    calls.do("mdl.get_desc", desc, model)
    descriptor = read_descriptor(calls, desc, facts.input_order, facts.input_ranges)

    # what the file said was an estimate; now the sizes are known, and nothing is allocated yet
    buffers = MemoryNeed(buffers_bytes=buffers_bytes(_buffer_sizes(descriptor, options)))
    check_budget(f"{file.name}, now loaded,", buffers, device_memory(calls), options.memory_reserve_bytes)
    description = GraphDescription(
        kind=descriptor.kind,
        inputs=tuple(port.info for port in descriptor.inputs),
        outputs=tuple(port.info for port in descriptor.outputs),
        gears=descriptor.gears,
        memory=MemoryNeed(need.weights_bytes, need.work_bytes, buffers.buffers_bytes),
        soc=facts.soc,
    )
    loaded = LoadedModel(session, file.name, options, stream, model, desc, descriptor, owned, description)
    return RangeGraph(loaded) if descriptor.kind == "range" else FixedGraph(loaded)


def _need(session: Session, file: Path, facts: FileFacts, options: Options) -> MemoryNeed:
    """Memory that the graph will take, before anything of it is on the device."""
    weights, work = facts.weights_bytes, facts.work_bytes
    if not facts.takes_ranges:  # CANN does not tell it for those
        work, weights = session.load.get("mdl.query_size", str(file))
    unknown = min(FIRST_OUTPUT_BYTES, options.max_output_bytes)
    sizes = [*facts.input_bytes, *(size or unknown for size in facts.output_bytes)]
    if facts.takes_ranges:
        sizes = [min(size, options.max_output_bytes) for size in sizes]
    return MemoryNeed(int(weights), int(work), buffers_bytes(sizes))


def _buffer_sizes(descriptor: Descriptor, options: Options) -> list[int]:
    if descriptor.kind == "range":
        return [
            *(first_input_bytes(port) for port in descriptor.inputs),
            *(first_output_bytes(port, options) for port in descriptor.outputs),
        ]
    gear = [descriptor.gear_bytes] if descriptor.gear_index >= 0 else []
    return [*(port.size_bytes for port in (*descriptor.inputs, *descriptor.outputs)), *gear]
