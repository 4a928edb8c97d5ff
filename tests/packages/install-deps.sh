#!/bin/sh
# install-deps.sh DIR: installs what make test-packages needs of Debian, and makes a small Debian with
# systemd in DIR/bookworm, where packages are installed. Only what is missing. Not root, or not
# Debian: says what is missing and fails.
set -eu
dir=${1:?the directory of the tree}

missing=
need() { # need PACKAGE COMMAND: COMMAND comes with PACKAGE
	command -v "$2" >/dev/null || missing="$missing $1"
}
need lintian lintian
need mmdebstrap mmdebstrap
need mandoc mandoc
need busybox-static busybox
need rpm rpm
need shellcheck shellcheck
need xz-utils xz
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# shellcheck disable=SC2086 # a list of package names
	apt-get install -q -y --no-install-recommends $missing
fi

[ ! -e "$dir/bookworm" ] || exit 0
mkdir -p "$dir"
rm -rf "$dir/new"
mmdebstrap --quiet --mode=root --variant=minbase \
	--include=systemd,dbus,rpm,openrc,bash-completion,fish,zsh,man-db bookworm "$dir/new"
mv "$dir/new" "$dir/bookworm"
