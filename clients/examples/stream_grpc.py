"""Streamed speech over gRPC with nothing but tritonclient: each piece is written as it comes.

python stream_grpc.py "Good morning." morning.wav [voice] [host:port]
"""

import queue
import sys
import time
import wave

import numpy as np
import tritonclient.grpc as triton

text, path = sys.argv[1], sys.argv[2]
voice = sys.argv[3] if len(sys.argv) > 3 else "en-joe"
url = sys.argv[4] if len(sys.argv) > 4 else "localhost:8001"


def tensor(name: str, value: object, dtype: str) -> triton.InferInput:
    array = np.array([[value]], dtype={"BYTES": np.object_, "FP32": np.float32, "INT64": np.int64}[dtype])
    made = triton.InferInput(name, [1, 1], dtype)
    made.set_data_from_numpy(array)
    return made


answers: queue.Queue = queue.Queue()
# one stream per client object; several requests may share it, told apart by their ids
with triton.InferenceServerClient(url) as client, wave.open(path, "wb") as file:
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    start_s = time.perf_counter()
    client.async_stream_infer(
        f"{voice}.stream",
        [tensor("text", text.encode("utf-8"), "BYTES"), tensor("seed", 7, "INT64")],
        request_id="1",
        enable_empty_final_response=True,
        parameters={"noise_scale": 0.5},
        timeout=60_000_000,  # microseconds, for the whole stream
    )
    samples = 0
    while True:
        result, error = answers.get(timeout=60)
        if error is not None:
            client.stop_stream(cancel_requests=True)
            sys.exit(f"{path} holds {samples} samples: {error}")
        if result.get_response().parameters["triton_final_response"].bool_param:
            break  # an empty answer, because it was asked for
        audio = result.as_numpy("audio")[0]  # int16 [N]
        if not samples:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(int(result.as_numpy("sample_rate")[0, 0]))
            print(f"first piece after {(time.perf_counter() - start_s) * 1000:.0f} ms")
        samples += len(audio)
        file.writeframes(audio.astype("<i2").tobytes())
    client.stop_stream()
    print(f"{path}: {samples / file.getframerate():.2f} s in {time.perf_counter() - start_s:.2f} s")
