#!/bin/sh
# Installs what make test-engines needs beside what the other tests need, and only what is missing. No
# service is started.
set -eu

missing=
[ -e /usr/bin/etcd ] || missing="$missing etcd-server"
[ -e /usr/bin/perl ] || missing="$missing perl-base"
[ -e /usr/bin/systemd-analyze ] || missing="$missing systemd"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
policy=/usr/sbin/policy-rc.d
if [ -e $policy ]; then
	policy=
else
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
fi
trap 'rm -f ${policy:+"$policy"}' EXIT
apt-get update -q
# shellcheck disable=SC2086 # a list of package names
apt-get install -q -y --no-install-recommends $missing
