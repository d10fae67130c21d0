#!/bin/sh
# A test beam on one machine: four planes of a telescope, each a front-end of another kind; a run with its page; a look at
# events while it goes on; and the same events as JSON lines afterwards. Needs cc and python3.
#
#   demo.sh [DIRECTORY]      default: a new directory below the temporary one
#
# EVENTS (3000) and RATE (300 triggers a second) may be set. Nothing that is there is removed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-3000} rate=${RATE:-300}
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/testbeam-XXXXXX")}
. "$here/beam.sh"

echo "== The front-end in C is compiled, and what the fourth plane plays is recorded"
compile
python3 "$here/record.py" plane3.frames 3 "$events"

echo "== A control and a node start, with certificates of their own; the page is at the address that follows"
begin 1 --input "shm:$ring,tcp:$tcp,udp:$udp,exec:exec python3 '$here/play.py' plane3.frames $rate" --events "$events" --fragment-timeout 5s --output out/
ringlet ctl start

echo "== The front-ends begin: C over shared memory, Python over TCP, UDP, and a program that plays a file"
./plane "$ring" 0 "$events" "$rate" & jobs="$jobs $!"
python3 "$here/plane.py" "tcp:$tcp" 1 "$events" "$rate" & jobs="$jobs $!"
python3 "$here/sender.py" "$udp" 2 "$events" "$rate" & jobs="$jobs $!"

echo "== Three events, as they are built"
ringlet tap --events 3 --for 60s

echo "== The run ends after $events events"
ringlet ctl wait end 10m
ringlet ctl show-run > record.txt

echo "== Every event and every fragment of it, converted and held against what the planes measured"
"$top/bin/ringlet-convert" out/run-000001 --output events.jsonl
python3 "$here/check.py" events.jsonl "$events" --lossy 2
echo "== All of it is in $(pwd)"
