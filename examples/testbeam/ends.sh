#!/bin/sh
# The telescope with front-ends that pause before they close, close late, and send wrong numbers, in C, Python and Go;
# and once more with the clients of before version 2 of the format among them, which close at once: one that closes when
# all is safe says no end. Each run ends by itself, and every fragment is in the output once. Needs cc, python3 and go.
#
#   ends.sh [DIRECTORY]     default: a new directory below the temporary one
#
# EVENTS (20000) and WRONG (1; 0: no wrong numbers) may be set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-20000} wrong=${WRONG:-1}
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/ends-XXXXXX")}
. "$here/beam.sh"
compile
old=$top/source/frames/testdata/clients-1
sed 's#ringlet/clients/frontend#ringlet/source/frames/testdata/clients-1/frontend#' "$here/testdata/plane.go" > old.go
(cd "$top" && go build -o "$dir/plane-go" examples/testbeam/testdata/plane.go && go build -o "$dir/plane-old" "$dir/old.go")
way=wrong
[ "$wrong" = 1 ] || way=late

for clients in new old; do
	echo "== A run with $clients clients"
	go=./plane-go python=$top/clients/python pause=3
	[ $clients = new ] || go=./plane-old python=$old/python pause=0
	"$top/bin/ringlet" run --nodes 1 --input "shm:$ring,tcp:$tcp,unix:wrong,tcp:$udp" --packing 100 --fragment-timeout 30s \
		--output "$clients/" > "$clients.txt" 2> "$clients.log" & run=$!
	./plane "$ring" 0 "$events" 0 & zero=$!
	PYTHONPATH="$python:$here" python3 "$here/ender.py" late "tcp:$tcp" 1 "$events" $pause & one=$!
	python3 "$here/ender.py" $way "unix:wrong" 2 "$events" 2 & two=$!
	$go "tcp:$udp" 3 "$events" $pause & three=$!
	jobs="$run $zero $one $two $three"
	for job in $zero $one $two $three; do wait "$job"; done
	wait "$run" || [ "$wrong" = 1 ]
	jobs=
	grep -E '^(source|verdict|accounts)' "$clients.txt"
	"$top/bin/ringlet-convert" "$clients/run-000001" --output "$clients.jsonl"
	python3 "$here/check.py" "$clients.jsonl" "$events"
done
echo "== All of it is in $(pwd)"
