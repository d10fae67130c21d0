#!/bin/sh
# Fragments of many sizes over every kind of input: a ring, TCP, a Unix socket and a program of the run at once, then UDP. A
# program reads what is built from shared memory and expects each fragment once, with its bytes; of UDP some may be missing.
# Needs cc.
#
#   sizes.sh [DIRECTORY]     default: a new directory below the temporary one
#
# EVENTS (2000000: ten million fragments) and EVERY (100: how often one has 64 KiB to 4 MiB) may be set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=${EVENTS:-2000000} every=${EVERY:-100}
dir=${1:-$(mktemp -d "${TMPDIR:-/tmp}/sizes-XXXXXX")}
. "$here/beam.sh"
${CC:-cc} -std=c11 -O2 -I"$top/clients/c" "$here/sizes.c" -o sizes
output=sizes-$$

# reading INPUT SETTINGS…: a run, and the program that checks $sources sources, of which $lossy may lack some.
reading() {
	"$top/bin/ringlet" run --nodes 1 --input "$@" --output "buffer:$output" > run.txt 2> run.log & run=$!
	./sizes check "ringlet-$output-0" "$sources" "$events" "$every" "$lossy" & check=$!
	jobs="$run $check"
}

# read_all waits for both, and says what Ringlet counted. With inputs of 4 MiB a node needs some hundred MB, however much
# comes.
read_all() {
	wait $check
	wait $run || true
	jobs=
	grep -E '^(source|verdict|accounts|nodes used)' run.txt
	grep -q '^accounts *balance' run.txt
	mb=$(sed -n 's/^nodes used.* \([0-9]*\) MB at most.*/\1/p' run.txt)
	[ "$mb" -lt 1000 ] || { echo "== the node has used $mb MB"; exit 1; }
}

echo "== A ring, TCP, a Unix socket, a program: $events events of four sources"
sources=4 lossy=4
reading "shm:$ring?max=4MiB,tcp:$tcp?max=4MiB,unix:two?max=4MiB,exec:exec ./sizes send exec: 3 $events $every ?max=4MiB" \
	--on-missing wait
n=0
for address in "shm:$ring" "tcp:$tcp" unix:two; do
	./sizes send "$address" $n "$events" "$every" & jobs="$jobs $!"
	n=$((n + 1))
done
read_all

echo "== UDP: $events events of one source"
sources=1 lossy=0
reading "udp:$udp/0?max=4MiB"
until grep -q "waits for the first fragment" run.log; do # it says so after two seconds
	kill -0 $run
	sleep 0.1
done
./sizes send "udp:$udp" 0 "$events" "$every"
sleep 2
kill -INT $run
read_all
echo "== All of it is in $(pwd)"
