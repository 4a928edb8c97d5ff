#!/usr/bin/env bash
# Runs packaging/superd.service under a real systemd: inside.sh in a bed, a script that boots one in
# namespaces of its own. SDBED is the path of that script; it needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
sdbed=${SDBED:?the path of the script that boots systemd, see CONTRIBUTING.md}
if [ ! -x "$sdbed" ]; then
	echo "test-systemd: no $sdbed; set SDBED, see CONTRIBUTING.md" >&2
	exit 1
fi
# run RATING STATE OPTION...: the checks, with the arguments of inside.sh, in a bed with these options.
run() {
	local rating=$1 state=$2
	shift 2
	"$sdbed" -t 120 -j \
		-c superd:/usr/bin/superd \
		-c packaging/superd.service:/etc/systemd/system/superd.service \
		-c tests/systemd/superd.toml:/etc/superd/superd.toml \
		-c tests/systemd/inside.sh:/opt/inside.sh \
		"$@" -- bash /opt/inside.sh "$rating" "$state"
}
echo "# superd.socket"
"$sdbed" -t 120 -j \
	-c superd:/usr/bin/superd \
	-c packaging/superd.service:/etc/systemd/system/superd.service \
	-c packaging/superd.socket:/etc/systemd/system/superd.socket \
	-c tests/systemd/sockets.toml:/etc/superd/superd.toml \
	-c tests/systemd/sockets.sh:/opt/sockets.sh -- bash /opt/sockets.sh
echo "# superd.service"
run 92 exited
echo "# superd.service with hardened.conf"
run 49 failed -c packaging/superd.service.d/hardened.conf:/etc/systemd/system/superd.service.d/hardened.conf
