#!/usr/bin/env bash
# The checks of limits that cgroups keep, run by run.sh as root on a machine that has all controllers.
set -euo pipefail

unit=superd.service
group=/sys/fs/cgroup/system.slice/$unit
fail() {
	echo "FAIL: $*" >&2
	superd ctl status >&2 || true
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
		sleep 0.1
	done
}

# status_of NAME: in JSON, also of what is not up (exit status 3).
status_of() { superd ctl status --json "$1" || [ $? = 3 ]; }
# field NAME KEY: of the status of one program, a string or a number.
field() { status_of "$1" 2>/dev/null | tr ',{' '\n\n' | sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\"]*\)\"\{0,1\} *$/\1/p" | head -n 1; }
is() { [ "$(field "$1" "$2")" = "$3" ]; }
reason_of() { status_of "$1" | sed -n 's/.*"reason": *"\(\([^"\\]\|\\.\)*\)".*/\1/p'; }
cgroup_of() { echo "/sys/fs/cgroup$(sed -n s/^0:://p "/proc/$(field "$1" pid)/cgroup")"; }

systemctl start "$unit"
until_true "quiet runs" is quiet state running
[ "$(cat $group/cgroup.subtree_control)" = "" ] || fail "controllers were taken though no program has a limit"
[[ $(cgroup_of quiet) = $group/superd-*/program-quiet ]] || fail "quiet lives in $(cgroup_of quiet)"
ok "each program has a cgroup, and without limits no controller is taken"

superd ctl start --no-wait hog >/dev/null
until_true "hog has ended" is hog state failed
reason_of hog | grep -F "out of memory" >/dev/null || fail "the end of hog: $(reason_of hog)"
until_true "the alert is there" grep -qs '"condition": *"oom"' /run/alert
grep -q '"program": *"hog"' /run/alert || fail "the alert: $(cat /run/alert)"
pgrep -x tr >/dev/null && fail "a part of hog has survived"
ok "memory: $(reason_of hog)"

superd ctl start spin >/dev/null
before=$(field spin cpu_s)
sleep 5
used=$(awk -v a="$before" -v b="$(field spin cpu_s)" 'BEGIN { print b - a }')
awk -v u="$used" 'BEGIN { exit !(u > 0.5 && u < 1.6) }' || fail "spin has used $used s of 5 s, want about 1"
superd ctl stop spin >/dev/null
ok "cpu: $used s in 5 s at a limit of 0.2"

superd ctl start writer >/dev/null
writer=$(cgroup_of writer)
for setting in "memory.high $((40000000 / 4096 * 4096))" "memory.max max" "cpu.weight 50" "cpu.max max 100000" "pids.max 100"; do
	file=${setting%% *} want=${setting#* }
	[ "$(cat "$writer/$file")" = "$want" ] || fail "$file of writer: $(cat "$writer/$file"), want $want"
done
[ ! -e "$writer/memory.swap.max" ] || [ "$(cat "$writer/memory.swap.max")" = 0 ] || fail "writer may swap"
grep -E "^[0-9]+:[0-9]+ rbps=max wbps=1000000 riops=max wiops=max$" "$writer/io.max" >/dev/null || fail "io.max of writer: $(cat "$writer/io.max")"
until_true "writer has written" grep -qs written /var/log/superd/writer.log
before=$(grep -c written /var/log/superd/writer.log)
sleep 9
rounds=$(($(grep -c written /var/log/superd/writer.log) - before))
((rounds >= 2 && rounds <= 4)) || fail "writer has written 3 MB $rounds times in 9 s, want 3 times"
superd ctl stop writer >/dev/null
ok "memory_high, swap, cpu_weight, io: writer has written 3 MB $rounds times in 9 s at 1 MB/s"

superd ctl start nowhere >/dev/null 2>&1 && fail "nowhere runs without its limit"
reason_of nowhere | grep -F "limit io: find the device of /proc: it is on no block device" >/dev/null || fail "nowhere: $(reason_of nowhere)"
ok "refused: $(reason_of nowhere)"

superd ctl start --no-wait bomb >/dev/null
until_true "bomb runs" is bomb state running
bomb=$(cgroup_of bomb)
until_true "bomb is at its limit" grep -E 'max [1-9]' "$bomb/pids.events" >/dev/null
tasks=$(cat "$bomb/pids.current")
((tasks <= 30)) || fail "bomb has $tasks tasks"
begin=$(date +%s%N)
is quiet state running || fail "quiet does not run beside the bomb"
took=$((($(date +%s%N) - begin) / 1000000))
((took < 3000)) || fail "status took $took ms beside the bomb"
superd ctl stop bomb >/dev/null
[ "$(cat "$bomb/cgroup.procs" 2>/dev/null)" = "" ] || fail "a part of bomb is left"
superd ctl start bomb >/dev/null
superd ctl stop bomb >/dev/null
ok "tasks: a fork bomb had $tasks tasks, status took $took ms, and it could be stopped, started and stopped"

superd ctl start --no-wait nest >/dev/null
restarted() { (($(field nest restarts) >= 3)); }
until_true "nest is started again and again" restarted
superd ctl stop nest >/dev/null
ok "a program that leaves its cgroup divided is started again"

superd ctl start spin >/dev/null
pid=$(systemctl show --property MainPID --value $unit)
[ "$(sed -n s/^0:://p "/proc/$pid/cgroup")" = "/system.slice/$unit/supervisor" ] || fail "superd has not moved into a leaf"
spin=$(field spin pid)
limit=$(cat "$(cgroup_of spin)/cpu.max")
kill -KILL "$pid"
again() { [ "$(systemctl show --property MainPID --value $unit)" != "$pid" ] && is quiet state running; }
until_true "superd is back" again
is spin pid "$spin" || fail "spin was started anew: $(field spin pid), want $spin"
[ "$(cat "$(cgroup_of spin)/cpu.max")" = "$limit" ] || fail "limit of spin: $(cat "$(cgroup_of spin)/cpu.max"), want $limit"
pid=$(systemctl show --property MainPID --value $unit)
systemctl restart "$unit" || fail "restart while programs with limits run"
until_true "superd is back" again
is spin pid "$spin" || fail "spin was started anew: $(field spin pid), want $spin"
[ "$(cat "$(cgroup_of spin)/cpu.max")" = "$limit" ] || fail "limit of spin: $(cat "$(cgroup_of spin)/cpu.max"), want $limit"
ok "superd was killed, and restarted: spin goes on, and its limit holds"

systemctl stop "$unit"
[ ! -d "$group" ] || fail "the cgroup is still there: $(find "$group" -type d)"
ok "systemctl stop leaves nothing"

# Beside others: superd moves out of the way, but they do not.
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/mixed
sleep 1000000 &
echo $! >/sys/fs/cgroup/mixed/cgroup.procs
bash -c 'echo $$ >/sys/fs/cgroup/mixed/cgroup.procs; exec superd run -c /etc/superd/superd.toml --output never' 2>/tmp/mixed.log &
superd=$!
until_true "quiet runs" is quiet state running
superd ctl start spin >/dev/null 2>&1 && fail "spin runs without its limit"
reason_of spin | grep -F "no cgroup v2 controller cpu here: superd's cgroup /mixed has other processes" >/dev/null || fail "spin: $(reason_of spin)"
is spin state failed || fail "spin is $(field spin state)"
ok "refused: $(reason_of spin)"
kill %1
wait %1 2>/dev/null || true
superd ctl start spin >/dev/null || fail "spin does not run: $(reason_of spin)"
[ "$(cat /sys/fs/cgroup/mixed/cgroup.subtree_control)" = cpu ] || fail "controllers: $(cat /sys/fs/cgroup/mixed/cgroup.subtree_control)"
kill -TERM $superd
wait $superd || fail "superd has ended with status $?"
[ "$(find /sys/fs/cgroup/mixed -mindepth 1 -type d)" = "" ] || fail "left behind: $(find /sys/fs/cgroup/mixed -type d)"
[ "$(cat /sys/fs/cgroup/mixed/cgroup.subtree_control)" = "" ] || fail "controllers are still taken"
rmdir /sys/fs/cgroup/mixed
ok "an orderly end leaves superd's cgroup as it was"
