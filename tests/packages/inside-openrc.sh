#!/usr/bin/env bash
# Runs the init script of the apk under Debian's OpenRC, as root in a tree of its own.
# inside-openrc.sh OLD NEW INITD: the debs of two versions, whose binaries are those of the apks
set -euo pipefail

old=$1 new=$2 initd=$3
fail() {
	echo "FAIL: $*" >&2
	cat /var/log/superd/superd.log >&2 || true
	exit 1
}
ok() { echo "ok: $*"; }
pid() { superd ctl status --json "$1" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1; }
running_version() { superd ctl version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p'; }

dpkg -i "$old" >/dev/null || fail "install"
systemctl stop superd
mount -t tmpfs -o mode=755 none /run
# What OpenRC makes at boot
mkdir -p /run/openrc/{daemons,exclusive,failed,hotplugged,inactive,options,scheduled,started,starting,stopping,tmp,wasinactive}
touch /run/openrc/softlevel
# Debian's OpenRC has no localmount, and the start-stop-daemon of dpkg, one of whose options is another.
printf '#!/sbin/openrc-run\nstart() { :; }\n' >/etc/init.d/localmount
cat >/lib/rc/bin/start-stop-daemon <<'END'
#!/bin/bash
arguments=()
while [ $# -gt 0 ]; do
	case $1 in
	--stdout) arguments+=(--output "$2") && shift ;;
	--stderr) shift ;;
	*) arguments+=("$1") ;;
	esac
	shift
done
exec /usr/sbin/start-stop-daemon "${arguments[@]}"
END
chmod +x /etc/init.d/localmount /lib/rc/bin/start-stop-daemon
cp "$initd" /etc/init.d/superd
cat >/etc/superd/conf.d/test.toml <<'END'
[program.idle]
command = "sleep infinity"
END

rc-service superd start || fail "start"
[ "$(running_version)" = 0.0.1 ] || fail "superd does not answer after start"
rc-service superd status || fail "status"
idle_pid=$(pid idle)
rc-service superd reload || fail "reload"
echo 'comand = 1' >>/etc/superd/superd.toml
! rc-service superd reload 2>/dev/null || fail "reload of a broken file succeeded"
sed -i '$d' /etc/superd/superd.toml
ok "start, status, reload"

dpkg -i "$new" || fail "upgrade"
[ "$(running_version) $(pid idle)" = "0.0.2 $idle_pid" ] || fail "not upgraded: $(running_version)"
rc-service superd upgrade || fail "rc-service upgrade"
[ "$(pid idle)" = "$idle_pid" ] || fail "rc-service upgrade started idle anew"
ok "upgrade"

rc-service superd stop || fail "stop"
! kill -0 "$idle_pid" 2>/dev/null || fail "stop left a program"
! rc-service superd status || fail "started after stop"
echo 'comand = 1' >>/etc/superd/superd.toml
! rc-service superd start || fail "start with a broken file succeeded"
ok "stop"
