#!/bin/sh
# Speech with curl: once through /generate, once through the Open Inference Protocol in JSON.
#
#   sh curl.sh "Good morning." FOLDER [voice] [http://host:port]
#
# Both answers carry the samples as numbers; python3 (standard library only) packs them into WAV files.
set -eu

text=$1
folder=$2
voice=${3:-en-joe}
server=${4:-http://localhost:8000}

# to_wav FILE: reads a JSON answer on stdin; curl has already turned error statuses into a failure
to_wav() {
    python3 -c '
import array, json, sys, wave
answer = json.load(sys.stdin)
if "outputs" in answer:  # infer
    outputs = {output["name"]: output["data"] for output in answer["outputs"]}
else:  # generate
    outputs = answer
audio = array.array("h", outputs["audio"])
if sys.byteorder == "big":
    audio.byteswap()
rate = outputs["sample_rate"]
with wave.open(sys.argv[1], "wb") as file:
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(rate[0] if isinstance(rate, list) else rate)
    file.writeframes(audio.tobytes())
' "$1"
}

quoted=$(printf '%s' "$text" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))')

answer=$(curl --silent --show-error --fail-with-body "$server/v2/models/$voice/generate" \
    --header 'Content-Type: application/json' \
    --data "{\"text\": $quoted, \"seed\": 7}") || { printf '%s\n' "$answer" >&2; exit 1; }
printf '%s' "$answer" | to_wav "$folder/generate.wav"

answer=$(curl --silent --show-error --fail-with-body "$server/v2/models/$voice/infer" \
    --header 'Content-Type: application/json' \
    --data "{
        \"inputs\": [
            {\"name\": \"text\", \"datatype\": \"BYTES\", \"shape\": [1, 1], \"data\": [$quoted]},
            {\"name\": \"seed\", \"datatype\": \"INT64\", \"shape\": [1, 1], \"data\": [7]}
        ]
    }") || { printf '%s\n' "$answer" >&2; exit 1; }
printf '%s' "$answer" | to_wav "$folder/infer.wav"

echo "$folder/generate.wav and $folder/infer.wav written"
