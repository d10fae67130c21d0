#!/usr/bin/env bash
# dev-certs.sh NODES [DIR]: makes development keys in DIR (default: a temporary one, removed again) and prints them as Secrets.
# NODES is how many, n-0, n-1, …, or their names:
#   k8s/dev-certs.sh 4 keys | kubectl apply -f -
#   k8s/dev-certs.sh ru-0,ru-1,bu-0,bu-1 keys | kubectl apply -f -
# DIR then holds what `ringlet ctl --certs DIR --user crew` needs, and the authority's key: keep it to yourself.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0"; exit 2; }
nodes=$1 dir=${2:-}
ringlet=${RINGLET:-$(dirname "${BASH_SOURCE[0]}")/../bin/ringlet}
kubectl=${KUBECTL:-kubectl}
if [ -z "$dir" ]; then dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; fi
names=()
case $nodes in
  *[!0-9]*) IFS=, read -ra names <<<"$nodes" ;;
  *) for ((i = 0; i < nodes; i++)); do names+=("n-$i"); done ;;
esac
"$ringlet" certs "$dir" "${names[@]}" --user crew:operator --user visitor:viewer >&2
"$ringlet" certs "$dir" --host localhost --host ringlet-control-page.ringlet.svc >&2 # the control again: browsers know it by these
secret() { # name, type, what else goes to kubectl create
  echo ---
  $kubectl create secret generic "$1" --namespace ringlet --type="$2" "${@:3}" --dry-run=client -o yaml
}
secret ringlet-gossip Opaque --from-file=gossip.key="$dir/gossip.key"
for n in control "${names[@]}" crew visitor; do
  secret "ringlet-cert-$n" kubernetes.io/tls --from-file=tls.crt="$dir/$n.crt" --from-file=tls.key="$dir/$n.key" --from-file=ca.crt="$dir/ca.crt"
done
