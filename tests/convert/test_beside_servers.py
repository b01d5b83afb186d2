from __future__ import annotations

import threading
from pathlib import Path

from tests.repository.another_server import another_server
from voxrepo.repository.arms import check_arm
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice

from .graphs import write_voice_of
from .test_voice import convert


def test_a_conversion_to_be_used_lets_a_server_load_what_it_is_loading(tmp_path: Path):
    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    convert(layout, "tiny.vocoder", use=False)
    arm = check_arm(layout, check_voice(layout, "tiny"), "new", {"vocoder": 2})
    config = layout.model_repository / "tiny.vocoder" / "config.pbtxt"
    thread = threading.Thread(target=convert, args=(layout, "tiny.acoustic"))
    with another_server(layout):
        publish_voice(layout, arm.voice, {"new": arm.versions}, 1)
        staged = config.read_bytes()
        thread.start()
        # all but the last step is done
        while not layout.version_dir("tiny.acoustic", 2).is_dir():
            thread.join(0.05)
            assert thread.is_alive()
        thread.join(0.5)
        assert (thread.is_alive(), config.read_bytes()) == (True, staged)
    thread.join(30)
    assert config.read_bytes() != staged
