"""A Python model with the tensors of a voice: its audio is a function of text, speed, speaker and seed.

The text can steer it: "sleep MS", "samples N", "refuse" (INVALID_ARGUMENT), "busy" (UNAVAILABLE), "broken" (INTERNAL),
"raise" (an exception), "nonsense" (counts that are none). Emoji count as dropped.
"""

import json
import time
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

ERRORS = {
    "refuse": ("INVALID_ARG", "nothing in the text can be spoken"),
    "busy": ("UNAVAILABLE", "the device is being restarted"),
    "broken": ("INTERNAL", "region /dev/shm/secret_name is gone"),
}


def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)[0]


def dropped(text):
    if text.split()[0] == "nonsense":
        return "[1]"
    emoji = sum(ord(character) >= 0x1F300 for character in text)
    return json.dumps({"emoji": emoji} if emoji else {})


def answer(request):
    text = value(request, "text").decode("utf-8")
    words = text.split()
    if words[0] in ERRORS:
        code, message = ERRORS[words[0]]
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, getattr(pb_utils.TritonError, code)))
    if words[0] == "raise":
        raise ValueError("secret path /srv/models")
    if words[0] == "sleep":
        time.sleep(float(words[1]) / 1000)
    samples = int(words[1]) if words[0] == "samples" else 400
    parameters = json.loads(request.parameters() or "{}")
    key = repr((text, float(value(request, "speed")), value(request, "speaker"), sorted(parameters.items())))
    generator = np.random.default_rng([int(value(request, "seed")), zlib.crc32(key.encode())])
    audio = generator.integers(-30000, 30000, (1, samples), dtype=np.int16)
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("audio", audio),
            pb_utils.Tensor("sample_rate", np.array([[22050]], dtype=np.int32)),
            pb_utils.Tensor("dropped", np.array([[dropped(text).encode()]], dtype=np.object_)),
        ]
    )


class TritonPythonModel:
    def execute(self, requests):
        return [answer(request) for request in requests]
