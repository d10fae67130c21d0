#!/usr/bin/env bash
# rollout.sh INVENTORY KEYS [CONFIGURATION]: installs bin/ringlet.deb on every host of the inventory, gives it its share of the keys in
# KEYS (which are made where they are missing) and its arguments, and starts what is to run there. Run it again after a change.
# CONFIGURATION goes to the control's host as /etc/ringlet/ringlet.yaml. SSH is the ssh to use, with options: SSH="ssh -p 2222".
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
inventory=$1 keys=$2 configuration=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deb=${DEB:-$here/bin/ringlet.deb} ringlet=${RINGLET:-$here/bin/ringlet} ssh=${SSH:-ssh}

names=() control=''
declare -A at address data share
while read -r name target where other; do
  case "$name" in '' | '#'*) continue ;; esac
  [ -n "${where:-}" ] || { echo "$inventory: $name needs a host and an address" >&2; exit 2; }
  at[$name]=$target address[$name]=$where data[$name]=${other:-}
  share[$target]+=" $name"
  if [ "$name" = control ]; then control=$where; else names+=("$name"); fi
done <"$inventory"
[ -n "$control" ] || { echo "$inventory names no control" >&2; exit 2; }

"$ringlet" certs "$keys" "${names[@]}" --user crew:operator
"$ringlet" certs "$keys" --host "$control" # the control again: browsers know it by its address

# on HOST COMMAND: runs it there, with our standard input.
on() { $ssh "$1" "$2"; }

for host in "${!share[@]}"; do
  echo "$host:${share[$host]}"
  # A name that nobody can know beforehand: who could make /tmp/x.deb first would say what root installs.
  on "$host" 'package=$(mktemp) && trap "rm -f $package" EXIT && cat >"$package" && dpkg --install --force-confold "$package" >/dev/null' <"$deb"
  files=(ca.crt gossip.key)
  for name in ${share[$host]}; do files+=("$name.crt" "$name.key"); done
  tar -C "$keys" -cf - "${files[@]}" | on "$host" 'cd /etc/ringlet/certs && tar --no-same-owner -xf - && chown root:ringlet -- * && chmod 0640 -- *'
done

# begin HOST UNIT: starts it anew, also with the next boot. A node is started when it is in the cluster: nobody waits for that here.
begin() { on "$1" "systemctl enable --quiet $2 && systemctl restart --no-block $2" </dev/null; }

if [ -n "$configuration" ]; then on "${at[control]}" 'cat >/etc/ringlet/ringlet.yaml' <"$configuration"; fi
on "${at[control]}" 'cat >/etc/default/ringlet-control' <<X
RINGLET_CONTROL_ARGS="--host $control --api $control:7947 --page $control:7980 --monitor $control:7982"
X
begin "${at[control]}" ringlet-control.service

monitor=7990
for name in "${names[@]}"; do
  extra=''
  if [ -n "${data[$name]}" ]; then extra=" --data-host ${data[$name]}"; fi
  on "${at[$name]}" "cat >/etc/default/ringlet-node-$name" <<X
RINGLET_NODE_ARGS="--join $control:7946 --host ${address[$name]}$extra --monitor ${address[$name]}:$monitor"
X
  begin "${at[$name]}" "ringlet-node@$name.service"
  monitor=$((monitor + 1))
done
echo "started; look at it: ringlet ctl --control $control:7947 --certs $keys --user crew status"
