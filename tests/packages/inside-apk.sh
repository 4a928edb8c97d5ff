#!/usr/bin/env bash
# Installs, upgrades and removes the apk with its scripts in a root with busybox alone, as root in a
# mount and PID namespace of its own. With apk in PATH it does so with apk.
# inside-apk.sh OLD NEW ROOT: the packages of two versions, an empty directory
set -euo pipefail

old=$1 new=$2 root=$3
fail() {
	echo "FAIL: $*" >&2
	cat "$root/tmp/superd.log" >&2 || true
	exit 1
}
ok() { echo "ok: $*"; }
here() { chroot "$root" "$@"; }
pid() { here superd ctl status --json "$1" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1; }
running_version() { here superd ctl version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p'; }

mkdir -p "$root"/{bin,dev,etc,proc,run,tmp,var/log}
cp /bin/busybox "$root/bin/busybox"
here /bin/busybox --install -s /bin
mount -t proc none "$root/proc"
mknod -m 666 "$root/dev/null" c 1 3
echo root:x:0:0::/:/bin/sh >"$root/etc/passwd"
echo root:x:0: >"$root/etc/group"
# Debian's busybox has no addgroup.
cat >"$root/bin/addgroup" <<'END'
#!/bin/sh
! grep -q "^$2:" /etc/group || exit 1
echo "$2:x:101:" >>/etc/group
END
chmod +x "$root/bin/addgroup"

with_apk() { apk --root "$root" --arch x86_64 --allow-untrusted --no-network --repositories-file /dev/null "$@"; }
# without FILE SCRIPT: what apk does with a package
without() {
	tar -xzf "$1" -C "$root" --warning=no-unknown-keyword
	here sh "/$2"
}
if command -v apk >/dev/null; then
	with_apk --initdb add "$old"
else
	without "$old" .post-install
fi
grep -q ^superd: "$root/etc/group" || fail "no group superd"
here superd check /etc/superd/superd.toml || fail "the configuration of the package"
ok "installed"

cat >"$root/etc/superd/conf.d/test.toml" <<'END'
[program.idle]
command = "sleep 1000000"
END
here superd run --output never -c /etc/superd/superd.toml >"$root/tmp/superd.log" 2>&1 &
for ((i = 0; i < 600; i++)); do
	idle_pid=$(pid idle 2>/dev/null || true)
	[ -z "$idle_pid" ] || break
	sleep 0.05
done
[ -n "$idle_pid" ] || fail "idle does not run"
if command -v apk >/dev/null; then
	with_apk add "$new"
else
	without "$new" .post-upgrade
fi
[ "$(running_version) $(pid idle)" = "0.0.2 $idle_pid" ] || fail "not upgraded: $(running_version)"
ok "upgraded: the same pid"

if command -v apk >/dev/null; then
	with_apk del superd
	[ ! -e "$root/usr/bin/superd" ] || fail "apk del left superd"
else
	here sh /.pre-deinstall
fi
! kill -0 "$idle_pid" 2>/dev/null || fail "removal left a program"
wait
ok "removed: everything stopped"
