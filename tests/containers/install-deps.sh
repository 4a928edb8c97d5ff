#!/bin/sh
# Installs what the tests in containers need beside what the other tests need, and only what is missing.
set -eu

missing=
[ -e /usr/sbin/runc ] || [ -e /usr/bin/runc ] || missing="$missing runc"
[ -e /bin/busybox ] || missing="$missing busybox-static"
[ -e /usr/bin/podman ] || missing="$missing podman"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # a list of package names
apt-get install -q -y --no-install-recommends $missing
