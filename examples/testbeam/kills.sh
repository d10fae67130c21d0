#!/bin/sh
# The telescope while its front-ends are killed: four kinds of them, each ended with kill -9 at random times and started
# again, a run that waits for them, and a tap that writes all that it is shown to a file. Afterwards every fragment is in
# the output once, with the bytes that its plane made, and the tap showed the same. Needs cc and python3.
#
#   kills.sh [DIRECTORY]     default: a new directory below the temporary one
#
# EVENTS (2500000: ten million fragments), RATE (0: as fast as it goes; triggers a second), SEED of the times (1), EVERY
# (seconds from one kill of a front-end to the next, in the mean: 3) and TAP (events a second on the tap: 10000) may be
# set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-2500000} rate=${RATE:-0} seed=${SEED:-1} every=${EVERY:-3} tap=${TAP:-10000}
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/kills-XXXXXX")}
. "$here/beam.sh"
compile
mortal() { exec python3 "$here/mortal.py" "$seed" "$every" "$@"; } # in the background: its process is the job

echo "== A control and two nodes start; a run waits for its front-ends"
begin 2 --input "shm:$ring,tcp:$tcp,unix:$(pwd)/plane2,exec:exec python3 '$here/mortal.py' --once $seed $every kills3 python3 '$here/plane.py' exec: 3 $events $rate" \
	--streams 3,1 --on-missing wait --events "$events" --output out/
ringlet ctl start
"$top/bin/ringlet" tap --rate "$tap" --data > tap.jsonl 2> tap.txt & viewer=$!

echo "== Front-ends begin, and die: C over shared memory, Python over TCP, over a Unix socket, and as a program of the run"
mortal kills0 ./plane "$ring" 0 "$events" "$rate" & zero=$!
mortal kills1 python3 "$here/plane.py" "tcp:$tcp" 1 "$events" "$rate" & one=$!
mortal kills2 python3 "$here/plane.py" "unix:$(pwd)/plane2" 2 "$events" "$rate" & two=$!
jobs="$jobs $viewer $zero $one $two"
ringlet ctl wait end 20m
# One that was killed before it heard that all is safe has no run any more to ask.
kill $zero $one $two 2> /dev/null || true
wait $zero $one $two || true
sleep 1 # the tap and the figures of sources are told of a few times a second
kill $viewer
wait $viewer || true
ringlet ctl sources
ringlet ctl show-run > record.txt
for i in 0 1 2 3; do echo "plane $i: killed $(wc -l < kills$i) times"; done
cat tap.txt

echo "== What is in the output, and what the tap showed, held against what the planes made"
"$top/bin/ringlet-convert" out/run-000001 --output events.jsonl
python3 "$here/check.py" events.jsonl "$events" --tap tap.jsonl
echo "== All of it is in $(pwd)"
