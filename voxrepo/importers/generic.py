"""A voice from any acoustic graph and vocoder: understood, checked by sound, cut where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voxrepo.importers.generic_acoustic import Acoustic, Scales, understand
from voxrepo.importers.generic_check import check_pair
from voxrepo.importers.generic_config import BANDS, HOP, SAMPLE_RATE, VoiceFacts
from voxrepo.importers.generic_cut import cut_voice
from voxrepo.importers.generic_frontend import FrontEnd, write_front_end
from voxrepo.importers.generic_request import GenericRequest, provenance_of
from voxrepo.importers.generic_source import Source, embedding_rows, read_source
from voxrepo.importers.generic_vocoder import Vocoder, find_vocoder_tensors, understand_vocoder, vocoder_layout
from voxrepo.importers.generic_writer import StageWriter
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.stage_files import stage_folders
from voxrepo_contract.errors import ConfigError, ConversionRefused, InvalidArgument
from voxrepo_contract.tensors import NOISE_SCALE_MAX, SPEED_MAX, SPEED_MIN


def build_stages(request: GenericRequest, out: Path, progress: Progress) -> VoiceImport:
    """Understand, check and write a voice; see :func:`voxrepo.importers.install.install_voice`.

    Raises:
        InvalidArgument: what the user says does not fit the files.
        ConfigError: a file is missing or wrong.
        ConversionRefused: a graph is not understood, the two do not fit, or what they speak is no speech.
    """
    folders = stage_folders(out)
    progress("reading the graphs", 0.0)
    sources = {"acoustic graph": read_source(request.acoustic, "acoustic graph")}
    sources["vocoder"] = read_source(request.vocoder, "vocoder")
    facts = VoiceFacts(request.config, sources)
    sample_rate_hz = _sample_rate(request, facts)
    provenance = provenance_of(request)
    progress("finding out how the graphs are called", 0.1)
    acoustic, vocoder = _understood(request, facts, sources)
    speakers = _speakers(request, facts, acoustic)
    for folder in folders.values():
        folder.mkdir(parents=True)
    front_end = write_front_end(
        folders["text_frontend"],
        request.frontend,
        request.tokens,
        request.marks,
        request.language,
        speakers,
        provenance,
    )
    _check_ids(acoustic, front_end, request)
    progress("speaking some texts", 0.2)
    parts = check_pair(
        request, facts, acoustic, vocoder, front_end, folders["text_frontend"], sample_rate_hz, speakers, progress
    )
    cut, why = None, "it was to be left whole"
    if request.cut and (parts.mel_scale, parts.mel_shift) == (1.0, 0.0):
        progress("looking for a length regulator to cut at", 0.6)
        cut, why = cut_voice(acoustic, vocoder, front_end.highest_id + 1, lambda m, s: progress(m, 0.6 + 0.3 * s))
    progress("writing the stages", 0.95)
    writer = StageWriter(request, parts, front_end, provenance)
    writer.write_acoustic(folders["acoustic"], cut)
    writer.write_vocoder(folders["vocoder"])
    notes = [*front_end.notes, *parts.notes]
    if cut is None:
        notes.append(f"the acoustic graph is run as it is, on a CPU only, since it could not be cut: {why}")
    has_speed = cut is not None or acoustic.duration_grows is not None
    if not has_speed:
        notes.append("the acoustic graph has no input for the speed: the voice speaks at speed 1 only")
    return VoiceImport(
        language=front_end.stage.options.language,
        speakers=tuple(speakers),
        default_speaker=speakers[0],
        sample_rate_hz=sample_rate_hz,
        channels=vocoder.channels,
        hop_length_samples=vocoder.hop_length_samples,
        feature_kind=writer.feature_kind,
        window_frames=parts.window_frames,
        overlap_frames=parts.overlap_frames,
        proof=writer.proof_table(cut),
        loudness=parts.proof.loudness(),
        notes=tuple(notes),
        speed_range=(SPEED_MIN, SPEED_MAX) if has_speed else (1.0, 1.0),
        vocoder_unit_batch=None if vocoder.takes_batches else 1,
    )


def _understood(request: GenericRequest, facts: VoiceFacts, sources: dict[str, Source]) -> tuple[Acoustic, Vocoder]:
    said = facts.number(BANDS, 1, 4096)
    channels = request.channels or (int(said.value) if said else None)
    source = sources["vocoder"]
    features, _ = find_vocoder_tensors(source) if _takes_ids(sources["acoustic graph"]) else (None, None)
    layout = vocoder_layout(source, features, channels) if features is not None else None
    scales = _scales(facts)
    acoustic = understand(
        sources["acoustic graph"],
        request.inputs,
        request.outputs,
        request.constants,
        scales,
        layout[0] if layout else channels,
    )
    vocoder = understand_vocoder(source, layout[0] if layout else acoustic.channels)
    if acoustic.channels != vocoder.channels:
        raise ConversionRefused(
            f"{request.acoustic.name} makes features of {acoustic.channels} bands and {request.vocoder.name} takes "
            f"{vocoder.channels}; the two were made for different features"
        )
    said = facts.number(HOP, 1, 1 << 16)
    if said is not None and int(said.value) != vocoder.hop_length_samples:
        raise ConversionRefused(
            f"{said.where} is {said.value:g}, but {request.vocoder.name} makes {vocoder.hop_length_samples} samples of "
            "each frame; the two were made for different frames"
        )
    return acoustic, vocoder


def _takes_ids(source: Source) -> bool:
    return any(tensor.is_int for tensor in source.inputs)


def _scales(facts: VoiceFacts) -> Scales:
    values = {}
    for name, low, high in (
        ("noise_scale", 0, NOISE_SCALE_MAX),
        ("noise_w", 0, NOISE_SCALE_MAX),
        ("length_scale", 0.05, 4),
    ):
        said = facts.number(name, low, high)
        if said is not None:
            values[name] = float(said.value)
    return Scales(**values)


def _sample_rate(request: GenericRequest, facts: VoiceFacts) -> int:
    said = facts.number(SAMPLE_RATE, 4000, 192_000)
    if request.sample_rate_hz is not None:
        if said is not None and said.value != request.sample_rate_hz:
            raise InvalidArgument(f"--sample-rate {request.sample_rate_hz}, but {said.where} is {said.value:g}")
        return request.sample_rate_hz
    if said is None:
        raise ConfigError(
            "no file says the sample rate of the audio; give the configuration of the training with --config, or "
            "--sample-rate"
        )
    return int(said.value)


def _speakers(request: GenericRequest, facts: VoiceFacts, acoustic: Acoustic) -> list[str]:
    if acoustic.roles.speaker is None:
        if len(request.speakers) > 1:
            raise InvalidArgument(
                f"{len(request.speakers)} speakers are named, but the acoustic graph has no input for them"
            )
        return list(request.speakers) or ["default"]
    count = facts.number("num_speakers", 1, 100_000)
    names = list(request.speakers) or facts.names() or [str(n) for n in range(int(count.value) if count else 1)]
    if count is not None and len(names) != int(count.value):
        raise ConfigError(f"{len(names)} speakers are named, but {count.where} is {count.value:g}")
    return ["default"] if names == ["0"] else names


def _check_ids(acoustic: Acoustic, front_end: FrontEnd, request: GenericRequest) -> None:
    """Refuse a table of symbols with ids that the graph has no row for."""
    rows = embedding_rows(acoustic.source, acoustic.roles.ids.name)
    if rows is not None and rows <= front_end.highest_id:
        raise ConfigError(
            f"the table of symbols goes up to the id {front_end.highest_id}, but {request.acoustic.name} knows ids "
            f"below {rows}; these files do not belong together",
            file=request.tokens or Path(request.frontend),
        )


def builder(request: GenericRequest, progress: Progress) -> Callable[[Path], VoiceImport]:
    """For :func:`voxrepo.importers.install.install_voice`."""
    return lambda folder: build_stages(request, folder, progress)
