#!/bin/sh
# Streamed speech with curl: server-sent events, one for each piece of audio, as raw PCM on stdout.
#
#   sh curl_stream.sh "Good morning." [voice] [http://host:port] > morning.pcm
#   sh curl_stream.sh "Good morning." | aplay -t raw -f S16_LE -r 22050 -c 1
#
# An event holds the samples as numbers; python3 (standard library only) unpacks them. What the server says besides,
# such as the seed and the sample rate, goes to stderr.
set -eu

text=$1
voice=${2:-en-joe}
server=${3:-http://localhost:8000}

quoted=$(printf '%s' "$text" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))')

# --no-buffer hands every event on as it comes; an error status comes as plain JSON, an error on the way as an event
curl --no-buffer --silent --show-error --fail-with-body "$server/v2/models/$voice.stream/generate_stream" \
    --header 'Content-Type: application/json' \
    --data "{\"text\": $quoted, \"seed\": 7}" |
    python3 -c '
import array, json, sys
pieces = 0
for line in sys.stdin.buffer:
    if not line.strip():
        continue
    event = json.loads(line[6:] if line.startswith(b"data: ") else line)
    if "error" in event:
        sys.exit("error after {} pieces: {}".format(pieces, event["error"]))
    audio, rate = event.pop("audio"), event.pop("sample_rate")
    samples = array.array("h", audio if isinstance(audio, list) else [audio])
    if sys.byteorder == "big":
        samples.byteswap()
    sys.stdout.buffer.write(samples.tobytes())
    sys.stdout.buffer.flush()
    if not pieces:
        print("{} Hz, {}".format(rate, event), file=sys.stderr)
    pieces += 1
if not pieces:
    sys.exit("no audio came")
'
