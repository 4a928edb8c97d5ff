#!/usr/bin/env bash
# The checks of packaging/superd.service, run by run.sh as root under a systemd of their own.
# Arguments: the most that systemd-analyze security may rate it, in tenths; the state in which a program
# with sandbox.private_network is.
set -euo pipefail

unit=superd.service
fail() {
	echo "FAIL: $*" >&2
	systemctl status --no-pager --lines 30 "$unit" >&2 || true
	exit 1
}
ok() { echo "ok: $*"; }

# property NAME: one property of the unit.
property() { systemctl show --property "$1" --value "$unit"; }

# until_true WHAT COMMAND...: waits until the command succeeds, 30 s at most.
until_true() {
	local what=$1 end=$((SECONDS + 30))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "not within 30 s: $what"
		sleep 0.05
	done
}

running() { [ "$(superd ctl status --json | grep -o '"state": *"running"' | wc -l)" = 4 ]; }
program_pid() { superd ctl status --json "$1" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1; }
is() { [ "$(property "$1")" = "$2" ]; }
# grep -q would end the pipe early, and with it what writes into it.
in_journal() { journalctl -u "$unit" --no-pager | grep -i "$1" >/dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null; }

# The watchdog's time is short here, so that several periods pass.
mkdir -p /etc/systemd/system/$unit.d
printf '[Service]\nWatchdogSec=1s\nTimeoutAbortSec=2s\nRestartSec=100ms\n' >/etc/systemd/system/$unit.d/test.conf
systemctl daemon-reload
warnings=$(systemd-analyze verify --man=no /etc/systemd/system/$unit 2>&1 | grep -F "$unit" || true)
[ -z "$warnings" ] || fail "systemd-analyze verify: $warnings"
ok "the unit has no mistakes"

rating=$(systemd-analyze security --no-pager --threshold="$1" "$unit") || fail "systemd-analyze security: ${rating##*→}, want $1 tenths at most"
ok "systemd-analyze security:${rating##*:}"

systemctl start "$unit" || fail "start"
is ActiveState active || fail "not active after start"
running || fail "READY=1 came before the programs ran"
ok "start is done when the programs run"

text=$(property StatusText)
case $text in *5*) ok "STATUS=$text" ;; *) fail "no number of programs in STATUS=$text" ;; esac
systemctl status --no-pager "$unit" | grep -F "$text" >/dev/null || fail "systemctl status without STATUS="

[ "$(stat -c %a /run/superd)" = 711 ] || fail "mode of /run/superd"
[ "$(stat -c %a /run/superd/superd.sock)" = 666 ] || fail "mode of the control socket"
[ -d /var/log/superd ] || fail "no /var/log/superd"
ok "runtime directory, socket, log directory"

main=$(property MainPID)
web=$(program_pid web)
grep -q . "/proc/$web/environ" || fail "no environment of web"
if tr '\0' '\n' <"/proc/$web/environ" | grep -E '^(NOTIFY_SOCKET|WATCHDOG_|INVOCATION_ID=|JOURNAL_STREAM|LISTEN_)'; then
	fail "a program sees what is systemd's and superd's"
fi
[ "$(sed -n 's/^SigIgn:\s*//p' "/proc/$web/status")" = 0000000000000000 ] || fail "a program ignores signals"
[ "$(sed -n 's/^Max open files *\([0-9]*\).*/\1/p' "/proc/$web/limits")" = 1024 ] || fail "soft limit of open files of a program"
ok "what a program inherits"

# of NAME KEY: a line of /proc/PID/status of a program.
of() { sed -n "s/^$2:\s*//p" "/proc/$(program_pid "$1")/status"; }
# superd ctl status fails for a program that does not run.
in_state() { { superd ctl status --json "$1" || true; } | grep "\"state\": *\"$2\"" >/dev/null; }
# What superd sets for a program works, whatever the unit restricts.
for program in worker boxed; do
	[ "$(of $program Uid | cut -f 1)" = "$(id -u daemon)" ] || fail "user of $program: $(of $program Uid)"
	grep -q "/superd.service/.*$program" "/proc/$(program_pid $program)/cgroup" || fail "cgroup of $program: $(cat "/proc/$(program_pid $program)/cgroup")"
done
[ "$(awk '{ print $19 }' "/proc/$(program_pid worker)/stat")" = -5 ] || fail "nice of worker"
[ "$(of boxed CapAmb)" = 0000000000000400 ] && [ "$(of boxed CapBnd)" = 0000000000000400 ] || fail "capabilities of boxed: $(of boxed CapAmb), $(of boxed CapBnd)"
[ "$(of boxed NoNewPrivs)" = 1 ] && [ "$(of boxed Seccomp)" = 2 ] || fail "no_new_privileges, syscalls of boxed"
[ "$(readlink "/proc/$(program_pid boxed)/ns/mnt")" != "$(readlink "/proc/$main/ns/mnt")" ] || fail "boxed has superd's mounts"
until_true "offline is $2" in_state offline "$2"
[ "$2" = exited ] || { superd ctl why offline || true; } | grep "sandbox.private_network: .* CAP_NET_ADMIN" >/dev/null || fail "why offline: $(superd ctl why offline)"
ok "users, cgroups, attributes and sandboxes"

# A broken file first: it fails, and the old one stays in force.
cp /etc/superd/superd.toml /etc/superd/good
echo 'comand = 1' >>/etc/superd/superd.toml
if systemctl reload "$unit" 2>/dev/null; then fail "reload of a broken file succeeded"; fi
is ActiveState active || fail "not active after a broken reload"
printf '\n[program.added]\ncommand = "sleep infinity"\n' | cat /etc/superd/good - >/etc/superd/superd.toml
systemctl reload "$unit" || fail "reload"
[ -n "$(program_pid added)" ] || fail "reload ended before it was done"
[ "$(property MainPID)" = "$main" ] && [ "$(program_pid web)" = "$web" ] || fail "reload restarted something"
cp /etc/superd/good /etc/superd/superd.toml
systemctl reload "$unit" || fail "second reload"
ok "reload waits, and fails with a broken file"

sleep 3.5 # more than three watchdog periods
is ActiveState active && [ "$(property NRestarts)" = 0 ] && [ "$(property MainPID)" = "$main" ] || fail "watchdog not fed"
ok "the watchdog is fed"

# same: the programs are those of before, and web's log has each number once.
same() {
	[ "$(program_pid web)" = "$web" ] && [ "$(program_pid deaf)" = "$deaf" ] || fail "$1: programs were started anew: web $(program_pid web), deaf $(program_pid deaf), want $web, $deaf"
	awk '$1 != NR { exit 1 }' /var/log/superd/web.log || fail "$1: numbers are missing in the log of web, or there twice"
	local lines
	lines=$(wc -l </var/log/superd/web.log)
	until_true "web goes on writing after $1" more_than "$lines"
}
more_than() { [ "$(wc -l </var/log/superd/web.log)" -gt "$1" ]; }
new_main() { [ "$(property MainPID)" != 0 ] && [ "$(property MainPID)" != "$main" ] && is ActiveState active && running; }

web=$(program_pid web)
deaf=$(program_pid deaf)
main=$(property MainPID)
kill -STOP "$main"
until_true "the watchdog restarts a stopped superd" is NRestarts 1
until_true "superd is active again" new_main
same "the watchdog"
until_true "the journal tells of the watchdog" in_journal watchdog
ok "a superd that is stuck is killed by the watchdog, and the next one goes on with its programs"

for n in 2 3; do
	main=$(property MainPID)
	systemctl kill --kill-who=main -s KILL "$unit"
	until_true "systemd restarts a killed superd" is NRestarts $n
	until_true "superd is active again" new_main
	same "SIGKILL"
done
ok "a killed superd is followed by another, which goes on with its programs"

# What ends while there is no superd is known all the same.
main=$(property MainPID)
printf '[Service]\nRestartSec=2s\n' >/etc/systemd/system/$unit.d/zz-slow.conf
systemctl daemon-reload
kill -KILL "$main"
until_true "superd is dead" gone "$main"
kill -TERM "$web"
until_true "superd is active again" new_main
if superd version --features | grep -q '^+exit_info'; then
	superd ctl history web | grep -q SIGTERM || fail "the end of web is not known: $(superd ctl history web)"
fi
awk '$1 == 1 { n++ } END { exit n != 2 }' /var/log/superd/web.log || fail "web was not started once more: $(grep -n '^1$' /var/log/superd/web.log)"
rm /etc/systemd/system/$unit.d/zz-slow.conf
systemctl daemon-reload
superd ctl stop web >/dev/null
: >/var/log/superd/web.log
superd ctl start web >/dev/null
ok "an end without a superd"

web=$(program_pid web)
main=$(property MainPID)
systemctl restart "$unit" || fail "restart"
until_true "superd runs again" new_main
same "systemctl restart"
ok "systemctl restart leaves the programs alone"

main=$(property MainPID)
systemctl reload "$unit" || fail "reload after a restart"
superd ctl upgrade >/tmp/upgrade && grep -q "not reverted" /tmp/upgrade || fail "ctl upgrade: $(cat /tmp/upgrade)"
is MainPID "$main" && is ActiveState active || fail "after an upgrade: $(property MainPID), $(property ActiveState)"
same "an upgrade"
ok "superd ctl upgrade keeps pid and programs"

web=$(program_pid web)
deaf=$(program_pid deaf)
cgroup=/sys/fs/cgroup$(property ControlGroup)
systemctl stop "$unit" || fail "stop"
is ActiveState inactive && is Result success || fail "not stopped well: $(property ActiveState), $(property Result)"
gone "$web" && gone "$deaf" || fail "stop left a program"
[ ! -e "$cgroup" ] || fail "stop left processes: $(cat "$cgroup/cgroup.procs")"
[ ! -e /run/superd/superd.sock ] || fail "stop left the control socket"
ok "stop leaves nothing"

# A superd that can't stop its programs itself: systemd ends it, and clean-cgroup what is left.
printf '[Service]\nTimeoutStopSec=1s\n' >/etc/systemd/system/$unit.d/zz-short.conf
systemctl daemon-reload
systemctl start "$unit" || fail "start after a stop"
web=$(program_pid web)
kill -STOP "$(property MainPID)"
systemctl stop "$unit" || true
gone "$web" || fail "the stop of a superd that hangs left a program"
rm /etc/systemd/system/$unit.d/zz-short.conf
systemctl daemon-reload
systemctl reset-failed "$unit" 2>/dev/null || true
ok "a stop ends the programs even when superd hangs"

echo '[program.web' >/etc/superd/superd.toml
if systemctl start "$unit" 2>/dev/null; then fail "start with a broken file succeeded"; fi
until_true "a wrong configuration is not tried again" is ActiveState failed
is ExecMainStatus 2 || fail "exit status $(property ExecMainStatus) of a wrong configuration"
ok "a wrong configuration is not tried again"
