#!/bin/sh
# A test beam on one machine: four planes of a telescope, each a front-end of another kind, one run with its page, a look
# at events while it goes on, and the same events as JSON lines afterwards. Needs cc and python3.
#
#   demo.sh [DIRECTORY]      default: a new directory below the temporary one
#
# EVENTS (3000) and RATE (300 triggers a second) may be set. Nothing that is there is removed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
events=${EVENTS:-3000} rate=${RATE:-300}
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/testbeam-XXXXXX")}
mkdir -p "$dir"
cd "$dir"
export PYTHONPATH="$top/clients/python:$here" PYTHONDONTWRITEBYTECODE=1

# Two ports that nobody has now, and a name for the ring.
ports=$(python3 -c 'import socket
all = [socket.socket() for _ in range(3)]
for s in all: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in all))')
set -- $ports
tcp=127.0.0.1:$1 udp=127.0.0.1:$2 page=127.0.0.1:$3 ring=testbeam-$$

echo "1. build the front-end in C, and record what the fourth plane plays"
${CC:-cc} -std=c11 -O2 -I"$top/clients/c" "$here/plane.c" -o plane
python3 "$here/record.py" plane3.frames 3 "$events"

echo "2. start the front-ends: they wait for the run"
jobs=
stop() { for job in $jobs; do kill "$job" 2>/dev/null || true; done; }
trap stop EXIT INT TERM
./plane "$ring" 0 "$events" "$rate" & jobs="$jobs $!"
python3 "$here/plane.py" "tcp:$tcp" 1 "$events" "$rate" & jobs="$jobs $!"

echo "3. start the run: page http://$page/"
"$top/bin/ringlet" run --nodes 1 --events "$events" --fragment-timeout 5s --output out/ \
	--input "shm:$ring,tcp:$tcp,udp:$udp,exec:cat plane3.frames" > run.txt &
run=$! jobs="$jobs $!"
sleep 1
python3 "$here/sender.py" "$udp" 2 "$events" "$rate" & jobs="$jobs $!"
wait "$run"
cat run.txt

echo "4. convert: every event, every fragment"
"$top/bin/ringlet-convert" out/run-000001 --output events.jsonl
python3 "$here/check.py" events.jsonl "$events"
echo "all of it is in $(pwd)"
