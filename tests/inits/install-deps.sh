#!/bin/sh
# Installs what make test-tini needs, and only what is missing, and unpacks the sources of tini and
# dumb-init of Debian into a directory: install-deps.sh DIRECTORY. No service is started. Not root,
# or not Debian: says what is missing and fails.
set -eu

dir=$1
missing=
need() { # need PACKAGE FILE: FILE comes with PACKAGE
	[ -e "$2" ] || missing="$missing $1"
}
need tini /usr/bin/tini
need dumb-init /usr/bin/dumb-init
need gcc /usr/bin/gcc
need libc6-dev /usr/include/signal.h
need python3-pytest /usr/lib/python3/dist-packages/pytest
need python3-pytest-timeout /usr/lib/python3/dist-packages/pytest_timeout.py
need python3-psutil /usr/lib/python3/dist-packages/psutil
need python3-prctl /usr/lib/python3/dist-packages/prctl.py
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing
fi

[ ! -e "$dir/tini" ] || [ ! -e "$dir/dumb-init" ] || exit 0
mkdir -p "$dir"
cd "$dir"
own=$(mktemp -d) # package lists of sources, which the machine need not have
trap 'rm -rf "$own"' EXIT
mkdir -p "$own/parts" "$own/lists/partial"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
	[ -e "$list" ] || continue
	grep -q 'debian\.org' "$list" || continue
	sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"$own/parts/$(basename "$list")"
done
apt="apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$own/parts
	-o Dir::State::lists=$own/lists -o APT::Sandbox::User=root"
$apt update
$apt source --download-only --tar-only tini dumb-init
for name in tini dumb-init; do
	mkdir -p "$name.new"
	tar -xf "$name"_*.orig.tar.* -C "$name.new" --strip-components=1
	mv "$name.new" "$name"
done
