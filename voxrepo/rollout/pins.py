"""The versions that ``voice.yaml`` pins, changed in place: its other keys, order and comments stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec, read_voice
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import write_text_atomically

PREVIOUS_SUFFIX = ".previous"
"""After the name of the file as it was before."""


def pin_versions(layout: Layout, voice: str, versions: Mapping[str, int]) -> bool:
    """Let ``voice.yaml`` pin these versions; what it was is kept as ``voice.yaml.previous``.

    Doing it again does nothing.

    Returns:
        whether it pinned others.

    Raises:
        ConfigError: the file is missing or wrong, or cannot be written.
    """
    file = layout.voice_file(voice)
    if read_voice(layout, voice).versions == dict(versions):
        return False
    text = file.read_text(encoding="utf-8-sig")
    changed = with_versions(text, versions)
    written = yamlfile.parse(changed, VoiceSpec, file)
    if written.versions != dict(versions):
        raise ConfigError(f"the versions {dict(versions)} cannot be written into it", file=file)
    try:
        write_text_atomically(file.with_name(file.name + PREVIOUS_SUFFIX), text)
        write_text_atomically(file, changed)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=file) from error
    return True


def with_versions(text: str, versions: Mapping[str, int]) -> str:
    """The text of a ``voice.yaml`` with other versions and nothing else changed.

    Args:
        text: valid.
        versions: by stage.
    """
    places = []
    for stage, version in versions.items():
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        for key in ("stages", stage, "version"):
            node = _value(node, key)
        if node is not None:
            places.append((node.start_mark.index, node.end_mark.index, str(version)))
    for start, end, version_text in sorted(places, reverse=True):
        text = text[:start] + version_text + text[end:]
    return text


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key:
                found: yaml.Node = value_node
                return found
    return None
