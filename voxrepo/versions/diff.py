"""How two versions of a stage differ: in ``stage.yaml``, in their files, in what was measured of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from voxrepo.repository.layout import Layout
from voxrepo.versions.listing import VersionInfo
from voxrepo_contract.stage import AnyStage

ABSENT = "-"
_LEFT_OUT = ("provenance", "quality", "schema_version")


@dataclass(frozen=True)
class Difference:
    """One value that differs.

    Attributes:
        what: path of the key, such as ``options.gain`` or ``file.generator.onnx.bytes``.
        one: of the first version.
        other: of the second version.
    """

    what: str
    one: Any
    other: Any


def diff_versions(layout: Layout, one: VersionInfo, other: VersionInfo) -> list[Difference]:
    """All differences; scores that are equal are left out too."""
    sides = [dict(_values(layout, info)) for info in (one, other)]
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [
        Difference(key, sides[0].get(key, ABSENT), sides[1].get(key, ABSENT))
        for key in keys
        if sides[0].get(key, ABSENT) != sides[1].get(key, ABSENT)
    ]


def _values(layout: Layout, info: VersionInfo) -> Iterator[tuple[str, Any]]:
    yield "size_bytes", info.size_bytes
    if info.spec is None:
        yield "trouble", info.trouble
        return
    data = info.spec.model_dump(mode="json", exclude_none=True)
    yield from _flat("", {key: value for key, value in data.items() if key not in _LEFT_OUT})
    folder = layout.version_dir(info.ref.model, info.version)
    for name in _file_names(info.spec):
        yield f"file.{name}.bytes", (folder / name).stat().st_size if (folder / name).is_file() else ABSENT
    yield from _flat("quality", info.spec.quality)


def _file_names(spec: AnyStage) -> list[str]:
    return [graph.file for graph in spec.graphs.values()] + [entry.file for entry in spec.files.values()]


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        for item in value:
            shape = ", ".join(map(str, item.get("dims", [])))
            yield f"{path}.{item['name']}", f"{item.get('dtype', '')} [{shape}]"
    else:
        yield path, value
