#!/usr/bin/env bash
# The checks of packaging/superd.socket, run by run.sh as root under a systemd of their own.
set -euo pipefail

unit=superd.service
fail() {
	echo "FAIL: $*" >&2
	systemctl status --no-pager --lines 30 "$unit" >&2 || true
	exit 1
}
ok() { echo "ok: $*"; }

# until_true WHAT COMMAND...: waits until the command succeeds, 30 s at most.
until_true() {
	local what=$1 end=$((SECONDS + 30))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "not within 30 s: $what"
		sleep 0.05
	done
}
property() { systemctl show --property "$1" --value "$unit"; }
is() { [ "$(property "$1")" = "$2" ]; }
connects() { (exec 3<>/dev/tcp/127.0.0.1/80) 2>/dev/null; }
program_pid() { superd ctl status --json web 2>/dev/null | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1; }
runs() { [ -n "$(program_pid)" ]; }
new_main() { [ "$(property MainPID)" != 0 ] && [ "$(property MainPID)" != "$1" ] && is ActiveState active && runs; }
# inode PID: the socket that the program has as descriptor 3.
inode() { readlink "/proc/$1/fd/3"; }
systemds() { find /proc/1/fd -type l -lname "$1" | grep -q .; }

systemctl start superd.socket || fail "start of superd.socket"
is ActiveState inactive || fail "superd runs before a connection"
connects || fail "systemd does not listen"
until_true "the connection starts superd" runs
web=$(program_pid)
socket=$(inode "$web")
systemds "${socket/[/\\[}" || fail "web has $socket, which is not systemd's"
# Not grep -q: it would end the pipe early
journalctl -u "$unit" --no-pager | grep "socket taken from systemd.*socket=http" >/dev/null || fail "superd has not taken the socket by its name"
superd ctl sockets | grep "^http *:80 *open" >/dev/null || fail "ctl sockets: $(superd ctl sockets)"
ok "superd gets the socket from superd.socket by its name"

main=$(property MainPID)
systemctl kill --kill-who=main -s KILL "$unit"
until_true "superd is active again" new_main "$main"
[ "$(program_pid)" = "$web" ] || fail "web was started anew"
superd ctl restart web >/dev/null
[ "$(inode "$(program_pid)")" = "$socket" ] || fail "another socket after a kill of superd"
ok "a successor has the same socket"

systemctl stop "$unit" || fail "stop"
connects || fail "systemd does not listen while superd is stopped"
until_true "the connection starts superd again" runs
[ "$(inode "$(program_pid)")" = "$socket" ] || fail "another socket after a stop of superd"
ok "systemd keeps the socket while superd is stopped"
