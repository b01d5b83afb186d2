"""Speech over HTTP with nothing but tritonclient.

python plain_http.py "Good morning." morning.wav [voice] [host:port]
"""

import sys
import wave

import numpy as np
import tritonclient.http as triton

text, path = sys.argv[1], sys.argv[2]
voice = sys.argv[3] if len(sys.argv) > 3 else "en-joe"
url = sys.argv[4] if len(sys.argv) > 4 else "localhost:8000"


def tensor(name: str, value: object, dtype: str) -> triton.InferInput:
    array = np.array([[value]], dtype={"BYTES": np.object_, "FP32": np.float32, "INT64": np.int64}[dtype])
    made = triton.InferInput(name, [1, 1], dtype)
    made.set_data_from_numpy(array)
    return made


# one client per thread: tritonclient's HTTP client cannot be shared
with triton.InferenceServerClient(url) as client:
    result = client.infer(
        voice,
        [
            tensor("text", text.encode("utf-8"), "BYTES"),
            # the rest may be left out
            tensor("speed", 1.0, "FP32"),
            tensor("seed", 7, "INT64"),
        ],
        parameters={"noise_scale": 0.5},
        timeout=60_000_000,  # microseconds
    )

audio = result.as_numpy("audio")[0]  # int16 [N]
sample_rate_hz = int(result.as_numpy("sample_rate")[0, 0])
with wave.open(path, "wb") as file:
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(sample_rate_hz)
    file.writeframes(audio.astype("<i2").tobytes())

parameters = result.get_response()["parameters"]
print(f"{path}: {len(audio) / sample_rate_hz:.2f} s at {sample_rate_hz} Hz, seed {parameters['seed']}")
