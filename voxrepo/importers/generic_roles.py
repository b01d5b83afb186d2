"""What the inputs and outputs of an acoustic graph are for: found by name, dtype and rank, or as the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from voxrepo.importers.generic_source import Source, Tensor
from voxrepo_contract.errors import ConversionRefused, InvalidArgument

IDS, LENGTHS, SPEAKER = "ids", "lengths", "speaker"
SCALES, LENGTH_SCALE, SPEED, NOISE_SCALE, NOISE_W, NEUTRAL = (
    "scales",
    "length_scale",
    "speed",
    "noise_scale",
    "noise_w",
    "neutral",
)
INPUT_ROLES = (IDS, LENGTHS, SPEAKER, SCALES, LENGTH_SCALE, SPEED, NOISE_SCALE, NOISE_W, NEUTRAL)
FEATURES, FRAMES = "features", "frames"
OUTPUT_ROLES = (FEATURES, FRAMES)

_NAMES = {
    IDS: frozenset(
        {
            "x",
            "input",
            "inputs",
            "input_ids",
            "ids",
            "text",
            "texts",
            "tokens",
            "token_ids",
            "phoneme_ids",
            "phonemes",
            "phone_ids",
            "phones",
            "char_ids",
            "src_seq",
            "src",
            "sequences",
        }
    ),
    LENGTHS: frozenset(
        {
            "x_lengths",
            "x_length",
            "lengths",
            "length",
            "input_lengths",
            "input_length",
            "text_lengths",
            "text_length",
            "src_lens",
            "src_len",
            "ilens",
            "ids_lengths",
        }
    ),
    SPEAKER: frozenset(
        {"sid", "speaker", "speaker_id", "speaker_ids", "spk", "spk_id", "spk_ids", "spkid", "speakers", "g"}
    ),
    SCALES: frozenset({"scales"}),
    LENGTH_SCALE: frozenset(
        {"length_scale", "length_scales", "alpha", "duration_scale", "d_control", "duration_control"}
    ),
    SPEED: frozenset({"speed", "speaking_rate", "rate", "speed_ratio", "speed_ratios", "pace"}),
    NOISE_SCALE: frozenset({"noise_scale", "temperature"}),
    NOISE_W: frozenset({"noise_w", "noise_scale_w", "noise_scale_dur", "noise_scale_dp", "noise_scale_duration"}),
    NEUTRAL: frozenset(
        {
            "f0_ratio",
            "f0_ratios",
            "energy_ratio",
            "energy_ratios",
            "p_control",
            "e_control",
            "pitch_control",
            "energy_control",
            "pitch_scale",
            "energy_scale",
        }
    ),
}
_FEATURE_NAMES = ("mel_after", "after_outs", "mel_postnet", "postnet", "features", "feats", "mel", "mel_spec", "mels")
_FRAME_NAMES = frozenset(["mel_lens", "mel_lengths", "mel_length", "mel_len", "y_lengths", "olens", "frame_lengths"])


@dataclass(frozen=True)
class Roles:
    """Inputs by role; those of role ``neutral`` get 1, those of ``constants`` what the user says."""

    ids: Tensor
    lengths: Tensor | None = None
    speaker: Tensor | None = None
    scales: Tensor | None = None
    duration: Tensor | None = None
    noise_scale: Tensor | None = None
    noise_w: Tensor | None = None
    neutral: tuple[Tensor, ...] = ()
    constants: dict[str, float] = field(default_factory=dict)


def parse_pairs(pairs: Sequence[str], flag: str, roles: Sequence[str]) -> dict[str, str]:
    """``ROLE=TENSOR`` as given to ``--input`` or ``--output``: tensor to role.

    Raises:
        InvalidArgument: the syntax is wrong, or the role is not known.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        role, equals, name = pair.partition("=")
        if not equals or role not in roles or not name or name in found:
            raise InvalidArgument(f"{flag} {pair!r}: write ROLE=TENSOR, each tensor once; roles: {', '.join(roles)}")
        found[name] = role
    return found


def parse_constants(pairs: Sequence[str]) -> dict[str, float]:
    """``TENSOR=VALUE`` as given to ``--set``.

    Raises:
        InvalidArgument: the syntax is wrong.
    """
    found: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidArgument(f"--set {pair!r}: write TENSOR=NUMBER")
    return found


def _role_by_name(tensor: Tensor) -> str | None:
    name = tensor.name.rsplit("/", maxsplit=1)[-1].split(":", maxsplit=1)[0].lower()
    for role, names in _NAMES.items():
        whole = role in {IDS, LENGTHS, SPEAKER}
        if name in names and (tensor.is_int if whole else tensor.is_float):
            return role
    return None


def _fits(role: str, tensor: Tensor) -> bool:
    rank = len(tensor.dims)
    if role == IDS:
        return tensor.is_int and rank in {1, 2}
    if role in {LENGTHS, SPEAKER}:
        return tensor.is_int and rank <= 2
    return tensor.is_float and (rank == 1 if role == SCALES else rank <= 2)


def find_roles(source: Source, said: Mapping[str, str], constants: Mapping[str, float]) -> Roles:
    """Give every input of an acoustic graph its role.

    Args:
        source: the graph.
        said: roles by the tensor's name, as the user says; they go before all else.
        constants: values by the tensor's name, likewise.

    Raises:
        InvalidArgument: the user names a tensor that the graph does not have, or one that does not fit the role.
        ConversionRefused: it is not a graph that makes features of ids, or an input is of no known role; with the way
            to say it.
    """
    _check_said(source, said, constants)
    _check_kind(source)
    found: dict[str, list[Tensor]] = {}
    unknown: list[Tensor] = []
    for tensor in source.inputs:
        if tensor.name in constants:
            continue
        role = said.get(tensor.name) or _role_by_name(tensor)
        if role is None or not _fits(role, tensor):
            unknown.append(tensor)
        else:
            found.setdefault(role, []).append(tensor)
    _find_ids(source, found, unknown)
    if unknown:
        raise ConversionRefused(
            f"{source.file}: what the input {unknown[0]} is for is not clear; say it with --input "
            f"ROLE={unknown[0].name} (roles: {', '.join(INPUT_ROLES)}) or give it a value with --set "
            f"{unknown[0].name}=NUMBER"
        )
    found[LENGTH_SCALE] = [*found.get(LENGTH_SCALE, []), *found.get(SPEED, [])]

    def one(role: str) -> Tensor | None:
        tensors = found.get(role, [])
        if len(tensors) > 1:
            raise ConversionRefused(
                f"{source.file}: {' and '.join(map(str, tensors))} look both like {role}; say which is with --input "
                f"{role}=TENSOR, and give the other another role or a value with --set"
            )
        return tensors[0] if tensors else None

    ids = one(IDS)
    assert ids is not None
    return Roles(
        ids=ids,
        lengths=one(LENGTHS),
        speaker=one(SPEAKER),
        scales=one(SCALES),
        duration=one(LENGTH_SCALE),
        noise_scale=one(NOISE_SCALE),
        noise_w=one(NOISE_W),
        neutral=tuple(found.get(NEUTRAL, [])),
        constants=dict(constants),
    )


def _check_said(source: Source, said: Mapping[str, str], constants: Mapping[str, float]) -> None:
    by_name = {tensor.name: tensor for tensor in source.inputs}
    for name, flag in {**dict.fromkeys(said, "--input"), **dict.fromkeys(constants, "--set")}.items():
        if name not in by_name:
            raise InvalidArgument(f"{flag}: {source.file} has no input {name!r}; it has {source.described()}")
    for name, role in said.items():
        if not _fits(role, by_name[name]):
            raise InvalidArgument(f"--input {role}={name}: {by_name[name]} cannot be of that role")


def _check_kind(source: Source) -> None:
    if any(tensor.is_int for tensor in source.inputs):
        return
    first = source.inputs[0] if len(source.inputs) == 1 else None
    kind = (
        "it looks like the vocoder; were --acoustic and --vocoder given the wrong way round?"
        if first is not None and first.is_float and len(first.dims) == 3
        else "this is not the acoustic graph of a voice"
    )
    raise ConversionRefused(f"{source.file}: no input takes phoneme ids (whole numbers); {kind} ({source.described()})")


def _find_ids(source: Source, found: dict[str, list[Tensor]], unknown: list[Tensor]) -> None:
    """The only matrix of whole numbers without a role can be nothing but the ids."""
    if IDS in found:
        return
    matrices = [tensor for tensor in unknown if tensor.is_int and len(tensor.dims) == 2]
    if len(matrices) != 1:
        raise ConversionRefused(
            f"{source.file}: which input takes the phoneme ids is not clear "
            f"({', '.join(map(str, matrices or source.inputs))}); say it with --input ids=TENSOR"
        )
    found[IDS] = matrices
    unknown.remove(matrices[0])


def find_features(source: Source, said: Mapping[str, str], channels: int | None, ranks: Mapping[str, int]) -> Tensor:
    """The output that the vocoder takes.

    Args:
        source: the graph.
        said: roles by the output's name, as the user says.
        channels: of the vocoder's input, if they are known.
        ranks: of outputs that were seen when the graph ran, since files may not tell.

    Raises:
        InvalidArgument: the user names an output that is not there.
        ConversionRefused: none fits, or it is not clear which; with the way to say it.
    """
    by_name = {tensor.name: tensor for tensor in source.outputs}
    for name in said:
        if name not in by_name:
            raise InvalidArgument(f"--output: {source.file} has no output {name!r}; it has {source.described()}")
    chosen = [name for name, role in said.items() if role == FEATURES]
    if chosen:
        return by_name[chosen[0]]
    fitting = [t for t in source.outputs if t.is_float and ranks.get(t.name, len(t.dims)) in {2, 3}]
    candidates = [t for t in fitting if channels is not None and channels in t.dims] or fitting
    for name in _FEATURE_NAMES if len(candidates) > 1 else ():
        named = [t for t in candidates if t.name.rsplit("/", maxsplit=1)[-1].lower() == name]
        if named:
            candidates = named
            break
    if len(candidates) != 1:
        shown = ", ".join(map(str, candidates or source.outputs))
        raise ConversionRefused(
            f"{source.file}: which output is the features (mel) is not clear ({shown}); say it with --output "
            "features=TENSOR"
        )
    return candidates[0]


def find_frames(source: Source, said: Mapping[str, str]) -> Tensor | None:
    """The output that tells how many frames are true, if there is one."""
    for tensor in source.outputs:
        short = tensor.name.rsplit("/", maxsplit=1)[-1].lower()
        if said.get(tensor.name) == FRAMES or (tensor.is_int and short in _FRAME_NAMES):
            return tensor
    return None
