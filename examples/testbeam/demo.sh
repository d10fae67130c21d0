#!/bin/sh
# A test beam on one machine: four planes of a telescope, each a front-end of another kind, a camera with frames of 3 MB, a
# time-of-flight wall, and a trigger that starts last; temperatures; a run with its page; a look at events while it goes
# on. After a third of the run the wall misses one trigger, and an alarm tells so. Afterwards all fragments, as JSON lines,
# are held against what was measured. Needs cc and python3.
#
#   demo.sh [DIRECTORY]      default: a new directory below the temporary one
#
# EVENTS (6000) and RATE (300 triggers a second) may be set. Nothing that is there is removed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-6000} rate=${RATE:-300}
lost=$((events / 3))
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/testbeam-XXXXXX")}
. "$here/beam.sh"
fail() { echo "== $*"; exit 1; }

echo "== The front-end in C is compiled, and what the fourth plane plays is recorded"
compile
python3 "$here/record.py" plane3.frames 3 "$events"

echo "== A control and a node start, with certificates of their own; the page is at the address that follows"
begin 1 --slow-data unix:slow --input "shm:$ring,tcp:$tcp,udp:$udp,exec:exec python3 '$here/play.py' plane3.frames $rate,\
unix:trigger?name=trigger&require&start=last&stop=first,unix:tof?name=tof&require,tcp:$camera?name=camera&require&max=4MiB" \
	--events "$events" --fragment-timeout 20s --output out/

echo "== Trigger, tof and camera are there before the run, which waits for them; the trigger is told to begin last"
for kind in trigger tof camera; do
	address=unix:$kind missed=
	[ $kind != camera ] || address=tcp:$camera
	[ $kind != tof ] || missed=$lost
	python3 "$here/follower.py" $kind $address "$events" "$rate" $missed >> heard.txt & jobs="$jobs $!"
done
python3 "$here/thermometer.py" unix:slow > thermometer.txt & jobs="$jobs $!"
ringlet ctl start
cat heard.txt

echo "== The planes begin: C over shared memory, Python over TCP, UDP, and a program that plays a file"
./plane "$ring" 0 "$events" "$rate" & jobs="$jobs $!"
python3 "$here/plane.py" "tcp:$tcp" 1 "$events" "$rate" & jobs="$jobs $!"
python3 "$here/sender.py" "$udp" 2 "$events" "$rate" & jobs="$jobs $!"

echo "== Three events, as they are built"
ringlet tap --events 3 --for 60s

echo "== A person says why; slow data so far"
ringlet ctl note "the wall of tof is warm" values

echo "== tof misses trigger $lost: no number is missing, only the sizes tell it; the alarm"
timeout $((events / rate + 60)) "$top/bin/ringlet" ctl watch 2> watch.txt | grep -m 1 "tof is one event behind trigger" ||
	fail "there was no alarm"

echo "== The run ends after $events events"
ringlet ctl wait end 10m || true # with an error, since the run is DEGRADED
ringlet ctl sources
ringlet ctl show-run > record.txt
grep -q "tof is one event behind trigger since about event" record.txt || fail "the record tells of no drift"

echo "== Every event and every fragment of it, converted and held against what was measured"
"$top/bin/ringlet-convert" out/run-000001 --output events.jsonl
python3 "$here/check.py" events.jsonl "$events" --lossy 2 --more --lost "$lost"
for name in hall.temp camera.voltage note; do
	echo "slow data: $(grep -c "\"$name\"" events.slow.jsonl) values of $name"
done
grep begin heard.txt | tail -1 | grep -q trigger || fail "the trigger did not begin last"
echo "== All of it is in $(pwd)"
