#!/bin/sh
# The telescope with front-ends that behave badly: three that stand still in the middle and close late, in C, Python and
# Go, and one whose numbers are wrong. A run ends by itself, and every fragment that was measured is in the output once.
# Needs cc, python3 and go.
#
#   odd.sh [DIRECTORY]       default: a new directory below the temporary one
#
# EVENTS (4000), RATE (2000 triggers a second), PAUSE (2 seconds) may be set. OLD=1 takes the clients of version 1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-4000} rate=${RATE:-2000} version=2
export PAUSE="${PAUSE:-2}"
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/odd-XXXXXX")}
. "$here/beam.sh"

echo "== The front-ends in C and Go are compiled${OLD:+, and all have the clients of version 1}"
overlay=
if [ -n "${OLD:-}" ]; then
	version=1 old="$top/readoutunit/source/frames/testdata/clients-1"
	export PYTHONPATH="$old/python:$here"
	overlay="-overlay=$PWD/overlay.json"
	python3 - "$(cd "$top" && pwd)/clients/frontend" "$(cd "$old" && pwd)/frontend" > overlay.json <<-'P'
		import glob, json, os, sys
		new, old = sys.argv[1:]
		files = {f: "" for f in glob.glob(new + "/*.go")}
		files.update({os.path.join(new, os.path.basename(f)): f for f in glob.glob(old + "/*.go")})
		json.dump({"Replace": files}, sys.stdout)
	P
	mkdir -p include include/old
	cp "$top/clients/frontend/testdata/226138c3/c/ringlet.h" include/old/
	cat > include/ringlet.h <<-'C'
		#include "old/ringlet.h"
		#define ringlet_ring_open_as(ring, address, name, ms) ringlet_ring_open(ring, address, ms)
		#define ringlet_ring_end(ring) (ringlet_ring_end(ring), 0)
	C
	include="$PWD/include"
fi
compile
(cd "$top" && CGO_ENABLED=0 go build -trimpath $overlay -o "$dir/goplane" ./examples/testbeam/goplane)

echo "== A control and two nodes start; a run waits for its front-ends"
begin 2 --input "shm:$ring,tcp:$tcp,unix:$(pwd)/plane2,unix:$(pwd)/plane3" --fragment-timeout 20s --output out/
ringlet ctl start
./plane "$ring" 0 "$events" "$rate" & zero=$!
python3 "$here/plane.py" "tcp:$tcp" 1 "$events" "$rate" & one=$!
python3 "$here/odd.py" "unix:$(pwd)/plane2" 2 "$events" "$rate" "$version" & two=$!
./goplane "unix:$(pwd)/plane3" 3 "$events" "$rate" & three=$!
jobs="$jobs $zero $one $two $three"
ringlet ctl wait end 3m
for front_end in $zero $one $two $three; do wait "$front_end" || { echo "a front-end failed with code $?"; exit 1; }; done
sleep 1 # the figures of sources are told of a few times a second
ringlet ctl sources
ringlet ctl show-run > record.txt

echo "== What is in the output is held against what the planes measured"
"$top/bin/ringlet-convert" out/run-000001 --output events.jsonl
python3 "$here/check.py" events.jsonl "$events" | head -1
echo "== All of it is in $(pwd)"
