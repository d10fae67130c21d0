#!/bin/sh
# A test beam on one machine: four planes of a telescope, each a front-end of another kind; a run with its page; a look at
# events while it goes on; and the same events as JSON lines afterwards. Needs cc and python3.
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
ringlet() { "$top/bin/ringlet" "$@"; }
jobs=
stop() { for job in $jobs; do kill "$job" 2>/dev/null || true; done; wait; }
trap stop EXIT
trap 'exit 1' INT TERM

# Ports that nobody has now, and a name for the ring.
ports=$(python3 -c 'import socket
all = [socket.socket() for _ in range(5)]
for s in all: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in all))')
set -- $ports
join=127.0.0.1:$1 api=127.0.0.1:$2 page=127.0.0.1:$3 tcp=127.0.0.1:$4 udp=127.0.0.1:$5 ring=testbeam-$$

echo "== The front-end in C is compiled, and what the fourth plane plays is recorded"
${CC:-cc} -std=c11 -O2 -I"$top/clients/c" "$here/plane.c" -o plane
python3 "$here/record.py" plane3.frames 3 "$events"

echo "== A control and a node start, with certificates of their own; the page is at the address that follows"
ringlet certs keys n0 --user shifter:operator > certs.txt
"$top/bin/ringlet" control --certs keys --state records --nodes 1 --port "$1" --api "$api" --page "$page" \
	--input "shm:$ring,tcp:$tcp,udp:$udp,exec:exec python3 '$here/play.py' plane3.frames $rate" --events "$events" --fragment-timeout 5s --output out/ 2> control.log &
jobs="$jobs $!"
"$top/bin/ringlet" node --name n0 --certs keys --join "$join" 2> node.log &
jobs="$jobs $!"
export RINGLET_CONTROL="$api" RINGLET_CERTS=keys RINGLET_USER=shifter
tries=0
until ringlet ctl load configure > configured.txt 2>&1; do
	tries=$((tries + 1))
	[ $tries -lt 20 ] || { cat configured.txt; exit 1; }
	sleep 0.5
done
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
python3 "$here/check.py" events.jsonl "$events"
echo "== All of it is in $(pwd)"
