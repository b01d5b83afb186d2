"""Client library of voxrepo: text to speech over the Open Inference Protocol.

    from voxrepo_client import Voice

    with Voice("en-joe", "localhost:8001") as voice:
        voice.synthesize("Good morning.").write("morning.wav")
        for piece in voice.stream("Good morning."):  # int16 samples, as they are made
            play(piece)

Needs tritonclient (with its gRPC and HTTP extras), numpy and soundfile. The server takes unmodified tritonclient calls
as well; see ``clients/examples``.
"""

from __future__ import annotations

from voxrepo_client.errors import (
    BadResponse,
    ClientClosed,
    ConnectionFailed,
    InvalidRequest,
    NotPermitted,
    ServerBusy,
    ServerError,
    StreamingNotOffered,
    TimedOut,
    VoiceNotFound,
    VoxrepoClientError,
)
from voxrepo_client.longtext import stream_long, synthesize_long
from voxrepo_client.speech import Speech
from voxrepo_client.streaming import AsyncSpeechStream, SpeechStream
from voxrepo_client.timing import StreamTiming
from voxrepo_client.voice import AsyncVoice, Voice, list_voices, list_voices_async
from voxrepo_client.voice_info import VoiceInfo

__all__ = [
    "AsyncSpeechStream",
    "AsyncVoice",
    "BadResponse",
    "ClientClosed",
    "ConnectionFailed",
    "InvalidRequest",
    "NotPermitted",
    "ServerBusy",
    "ServerError",
    "Speech",
    "SpeechStream",
    "StreamTiming",
    "StreamingNotOffered",
    "TimedOut",
    "Voice",
    "VoiceInfo",
    "VoiceNotFound",
    "VoxrepoClientError",
    "list_voices",
    "list_voices_async",
    "stream_long",
    "synthesize_long",
]
