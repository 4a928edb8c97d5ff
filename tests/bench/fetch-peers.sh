#!/bin/sh
# fetch-peers.sh DIRECTORY: unpacks Debian's s6, runit and daemontools below the directory, for measurements beside superd.
# Nothing is installed, so no service is started. Needs apt-get and dpkg-deb, not root.
set -eu
mkdir -p "$1/deb" "$1/root"
cd "$1/deb"
# The libraries of s6; the C library is there.
libraries=$(apt-cache depends s6 | awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 != "libc6" { print $2 }')
# shellcheck disable=SC2086 # a list of package names
apt-get download -q s6 runit daemontools $libraries >&2
for package in *.deb; do
	dpkg-deb -x "$package" "$1/root"
	dpkg-deb -W --showformat '${Package} ${Version}\n' "$package"
done
