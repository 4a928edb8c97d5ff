#!/usr/bin/env bash
# Runs superd with programs that have limits on a machine that has the controllers of cgroup v2: inside.sh in a bed, a script that boots
# User Mode Linux with systemd. SDBED_UML is the path of that script; it needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
sdbed=${SDBED_UML:?the path of the script that boots User Mode Linux, see CONTRIBUTING.md}
if [ ! -x "$sdbed" ]; then
	echo "test-limits: no $sdbed; set SDBED_UML, see CONTRIBUTING.md" >&2
	exit 1
fi
exec "$sdbed" -t 240 -j \
	-c superd:/usr/bin/superd \
	-c packaging/superd.service:/etc/systemd/system/superd.service \
	-c tests/limits/superd.toml:/etc/superd/superd.toml \
	-c tests/limits/inside.sh:/opt/inside.sh \
	-- bash /opt/inside.sh
