#!/usr/bin/env bash
# Runs in the bed of make test-sandbox: starts the units esc-*.service, each an escape, and prints for
# each its name and what it said. Arguments: directory of the files, port, file in /var/tmp, device.
set -euo pipefail

dir=$1 port=$2 shared=$3 device=$4
touch "$shared"
[ -e "$device" ] || mknod "$device" c 1 3
sleep infinity &
echo $! >"$dir/target"
mkdir /run/said
printf '[Socket]\nListenStream=127.0.0.1:%s\n' "$port" >/run/systemd/system/esclisten.socket
printf '[Service]\nExecStart=sleep infinity\n' >/run/systemd/system/esclisten.service
systemctl daemon-reload
systemctl start esclisten.socket
cd /etc/systemd/system
systemctl start esc-*.service || true # those that failed are reported below
echo "version $(systemctl --version | sed -n '1s/.*(\(.*\))/\1/p')"
for unit in esc-*.service; do
	said=$(cat "/run/said/$unit" 2>/dev/null || true)
	echo "$unit ${said:-$(systemctl show --property Result --value "$unit")}"
done
