# What demo.sh and kills.sh have in common; they source it. They give: here (this directory), dir (where everything goes).
top=$here/../..
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
all = [socket.socket() for _ in range(6)]
for s in all: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in all))')
set -- $ports
port=$1 api=127.0.0.1:$2 page=127.0.0.1:$3 tcp=127.0.0.1:$4 udp=127.0.0.1:$5 camera=127.0.0.1:$6 ring=testbeam-$$

compile() { ${CC:-cc} -std=c11 -O2 -I"$top/clients/c" "$here/plane.c" -o plane; }

# begin NODES SETTINGS…: a control, nodes, and a run with these settings.
begin() {
	nodes=$1
	shift
	ringlet certs keys $(seq -f n%g 0 $((nodes - 1))) --user shifter:operator > certs.txt
	"$top/bin/ringlet" control --certs keys --state records --nodes "$nodes" --port "$port" --api "$api" --page "$page" "$@" 2> control.log &
	jobs="$jobs $!"
	for node in $(seq -f n%g 0 $((nodes - 1))); do
		"$top/bin/ringlet" node --name "$node" --certs keys --join "127.0.0.1:$port" --allow exec,unix,shm 2> "$node.log" &
		jobs="$jobs $!"
	done
	export RINGLET_CONTROL="$api" RINGLET_CERTS=keys RINGLET_USER=shifter
	tries=0
	until ringlet ctl load configure > configured.txt 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 20 ] || { cat configured.txt; exit 1; }
		sleep 0.5
	done
}
