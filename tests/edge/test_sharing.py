from __future__ import annotations

import asyncio
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from voxrepo.edge.app import Edge
from voxrepo.edge.options import EdgeOptions
from voxrepo.edge.sharing import Share
from voxrepo.edge.table import EdgeTable, write_table

from .harness import voice


@given(limit=st.integers(1, 10_000), workers=st.integers(1, 64))
def test_parts_add_up_to_the_limit_and_differ_by_one_at_most(limit: int, workers: int) -> None:
    parts = [Share(worker, workers).of(limit) for worker in range(workers)]
    assert sum(parts) == max(limit, workers)
    assert min(parts) >= 1
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


@given(limit=st.integers(1, 10_000), serving=st.sets(st.integers(0, 7), min_size=1))
def test_the_places_of_those_that_do_not_serve_are_divided_among_the_others(limit: int, serving: set[int]) -> None:
    parts = [Share(worker, 8).among(sorted(serving)).of(limit) for worker in sorted(serving)]
    assert sum(parts) == max(limit, len(serving))
    assert max(parts) - min(parts) <= 1


def test_one_that_is_not_named_yet_counts_itself_in() -> None:
    assert Share(1, 3).among([0, 2]) == Share(1, 3)
    assert Share(1, 3).among([0]) == Share(1, 2)
    assert Share(1, 3).among([]) == Share(1, 3)


async def test_a_process_takes_over_the_places_of_one_that_has_ended_until_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "table.json"

    def tell(generation: int, serving: list[int]) -> None:
        write_table(
            file,
            EdgeTable(
                generation=generation,
                voices={"en-test": voice("en-test")},
                engine_calls={"en-test": 16},
                edge_workers=serving,
            ),
        )

    tell(1, [])
    options = EdgeOptions(
        engine=f"unix:{tmp_path}/absent.sock",
        table=file,
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        worker=1,
        workers=2,
        max_engine_calls=8,
        max_streams=10,
    )
    edge = Edge(options)

    def limits() -> tuple[int, int, int]:
        gates = edge._engine.gates
        return gates.of("en-test").limit, gates.of("any other").limit, edge.plane._admission.limits.max_streams

    await edge.start()
    try:
        assert limits() == (8, 4, 5)
        for generation, (serving, wanted) in enumerate(
            [([0, 1], (8, 4, 5)), ([1], (16, 8, 10)), ([0, 1], (8, 4, 5))], start=2
        ):
            tell(generation, serving)
            ends_s = time.monotonic() + 10
            while edge._tables.table.generation != generation or limits() != wanted:
                assert time.monotonic() < ends_s, (limits(), wanted)
                await asyncio.sleep(0.02)
    finally:
        await edge.stop()
