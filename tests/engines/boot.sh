#!/bin/bash
# Runs in the bed of make test-engines: starts the units of testdata/boot.toml, then superd with all
# of it, and ends with the first thing that is not as superd has it.
set -eu

# until COMMAND...: repeats it until it succeeds, for 20 s.
until_() {
	for _ in $(seq 200); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "not within 20 s: $*" >&2
	systemctl --no-pager status '*.service' >&2 || true
	exit 1
}
has() { [ "$(cat "$1")" = "$2" ]; }
home=$(getent passwd daemon | cut -d: -f6)

systemctl --version | head -1
systemctl daemon-reload
cd "$1"
for unit in *.service *.target *.socket *.timer; do
	case $unit in *@*) continue ;; esac
	if grep -q '^\[Install\]' "$unit"; then systemctl enable --quiet --now "$unit"; fi
done
until_ systemctl is-active db.service web@1.service web@2.service job.timer echo.socket
until_ has /run/web-1 'a $b 100% "c" 1'
until_ has /run/web-2 'a $b 100% "c" 2'
until_ has /run/once done
until_ has /tmp/home "$home $home"
until_ eval '[ "$(wc -l </run/job)" -ge 2 ]'
reply=$(perl -MIO::Socket::UNIX -e '
	my $s = IO::Socket::UNIX->new(Peer => "/run/echo.sock") or die; print $s "hello\n"; shutdown($s, 1); print <$s>')
[ "$reply" = hello ]

first=$(cat /run/db/pid)
kill -KILL "$first"
# It is restarted, and what needs it.
until_ eval '[ "$(cat /run/db/pid 2>/dev/null || echo "$first")" != "$first" ]'
until_ eval '[ -z "$(systemctl list-jobs --no-legend "web@*" db.service)" ]'
until_ systemctl is-active db.service web@1.service web@2.service
systemctl stop db.service
until_ has /run/db-stopped stopped # by its stop signal
until_ eval '! systemctl is-active web@1.service' # which needs it
[ ! -e /run/db ]
systemctl stop frontend.target web.target job.timer echo.socket
rm -f /tmp/home /run/web-* /run/once /run/job /run/db-stopped
echo "units: all as it should be"

mkdir -p /etc/superd
cp "$2/boot.toml" /etc/superd/
cp "$2/boot.service" /etc/systemd/system/
systemctl daemon-reload
systemctl start boot.service
until_ /usr/bin/superd ready --runtime-dir /run/boot db web
until_ has /run/web-2 'a $b 100% "c" 2'
until_ has /tmp/home "$home $home"
until_ eval '[ "$(wc -l </run/job)" -ge 2 ]'
pid=$(systemctl show -P MainPID boot.service)
kill -KILL "$pid"
until_ eval '[ "$(systemctl show -P MainPID boot.service)" != "$pid" ] && systemctl is-active boot.service'
until_ /usr/bin/superd ready --runtime-dir /run/boot db web
systemctl stop boot.service
has /run/db-stopped stopped
[ -z "$(cat /sys/fs/cgroup/system.slice/boot.service/cgroup.procs 2>/dev/null)" ]
echo "whole: all as it should be"
