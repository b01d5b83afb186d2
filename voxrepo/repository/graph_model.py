"""Models of the ``ascend_om`` backend that belong to no voice: their versions read, their configuration completed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.repository.foreign import complete, shown
from voxrepo.repository.layout import CONFIG_FILE
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import ForeignGraph, graph_of_stage, read_foreign
from voxrepo_contract.names import is_version_name
from voxrepo_contract.stage import STAGE_FILE, DirectStage, read_stage, verify_files


@dataclass(frozen=True)
class CheckedModel:
    """A sound model that belongs to no voice.

    Attributes:
        config: its whole configuration.
        is_completed: whether that is not what ``config.pbtxt`` says, so that the engine must be handed it.
        left_out: versions that should be served and are not, with the reason.
        versions: those that are.
    """

    config: ModelConfig
    is_completed: bool = False
    left_out: tuple[tuple[int, str], ...] = ()
    versions: tuple[int, ...] = ()


def versions_of(model_dir: Path) -> list[int]:
    """Numbers of the version directories, ascending."""
    return sorted(int(entry.name) for entry in model_dir.iterdir() if entry.is_dir() and is_version_name(entry.name))


def served_versions(config: ModelConfig, versions: list[int], file: Path) -> list[int]:
    """Versions that the configuration's policy selects; without one, the latest, as in Triton.

    Raises:
        ConfigError: the policy names a version that is not there.
    """
    policy = config.version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return versions
    if choice == "specific":
        missing = [number for number in policy.specific.versions if number not in versions]
        if missing:
            raise ConfigError(f"version_policy: there is no version {missing[0]}; there are {versions}", file=file)
        return sorted(policy.specific.versions)
    return versions[-(policy.latest.num_versions or 1) :]


def check_graph_model(model_dir: Path, given: ModelConfig, text: str, cores: int) -> CheckedModel:
    """Check the versions that are served and complete the configuration from their graphs.

    A version that cannot be served is left out if others remain.

    Args:
        model_dir: the model's folder.
        given: what ``config.pbtxt`` says, empty if there is none.
        text: its text.
        cores: usable cores of this machine.

    Raises:
        ConfigError: no version can be served, or the configuration contradicts them.
    """
    file = model_dir / CONFIG_FILE
    versions = versions_of(model_dir)
    wanted = served_versions(given, versions, file)
    graphs: dict[int, ForeignGraph] = {}
    refused: dict[int, ConfigError] = {}
    for number in wanted:
        try:
            graph = _read_version(model_dir / str(number))
        except ConfigError as error:
            refused[number] = error
        else:
            if graph is None:
                # a stage program with tensors of its own: they follow from no file
                if not text:
                    raise ConfigError(
                        "the file is missing; this model's stage.yaml names no single graph that it "
                        "serves directly, so it needs its configuration",
                        file=file,
                    )
                return CheckedModel(given, versions=tuple(wanted))
            graphs[number] = graph
    refused |= odd_versions(model_dir, graphs)
    sound = [number for number in wanted if number not in refused]
    if not sound:
        raise next(iter(refused.values()))
    try:
        config = complete(given, graphs[sound[0]], text=text, cores=cores)
    except ConfigError as error:
        raise ConfigError(error.problem, file=file if file.exists() else model_dir) from error
    config.name = model_dir.name
    if refused:
        config.version_policy.specific.versions[:] = sound
    same = ModelConfig()
    same.CopyFrom(given)
    same.name = model_dir.name
    left_out = tuple((number, error.message) for number, error in sorted(refused.items()))
    return CheckedModel(config, config != same, left_out, tuple(sound))


def odd_versions(model_dir: Path, graphs: dict[int, ForeignGraph]) -> dict[int, ConfigError]:
    """Versions whose tensors are not those of the others: all versions of a model share one configuration.

    Most versions decide, among equally many the older ones, whose clients are there already.
    """
    if not graphs:
        return {}
    counts = Counter(graph.signature for graph in graphs.values())
    reference = max(sorted(graphs), key=lambda number: counts[graphs[number].signature])
    return {
        number: ConfigError(
            f"its tensors are not those of version {reference}: "
            f"{difference(graph, graphs[reference])}; versions of a model must agree, serve it under another name",
            file=model_dir / str(number) / graph.file,
        )
        for number, graph in graphs.items()
        if graph.signature != graphs[reference].signature
    }


def difference(graph: ForeignGraph, reference: ForeignGraph) -> str:
    """The first tensor in which two graphs differ, with both sides."""
    for side, here, there in (
        ("input", graph.inputs, reference.inputs),
        ("output", graph.outputs, reference.outputs),
    ):
        mine = {tensor.name: tensor for tensor in here}
        theirs = {tensor.name: tensor for tensor in there}
        for name in [*theirs, *mine]:
            if mine.get(name) != theirs.get(name):
                one, other = (
                    "none" if tensor is None else f"{tensor.dtype} {shown(tensor.dims)}"
                    for tensor in (mine.get(name), theirs.get(name))
                )
                if one != other:
                    return f"{side} {name!r} is {one} here and {other} there"
    return "they differ"


def _read_version(version_dir: Path) -> ForeignGraph | None:
    """The graph that a version serves directly; None if its ``stage.yaml`` names another program.

    Raises:
        ConfigError: something is wrong with it.
    """
    if not (version_dir / STAGE_FILE).exists() and not (version_dir / STAGE_FILE).is_symlink():
        return read_foreign(version_dir)
    stage = read_stage(version_dir)
    verify_files(version_dir, stage)
    return graph_of_stage(stage.graphs["model"]) if isinstance(stage, DirectStage) else None
