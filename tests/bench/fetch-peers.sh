#!/bin/sh
# fetch-peers.sh DIRECTORY: unpacks Debian's supervisor, runit, s6 and daemontools below the directory, for measurements beside superd.
# Nothing is installed, so no service is started. Needs apt-get and dpkg-deb, not root.
set -eu
mkdir -p "$1/deb" "$1/root"
cd "$1/deb"
# What they need beside the C library and Python, which are there.
libraries=$(apt-cache depends s6 | awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 != "libc6" { print $2 }')
# shellcheck disable=SC2086 # a list of package names
apt-get download -q supervisor python3-pkg-resources runit s6 daemontools $libraries >&2
for package in *.deb; do
	dpkg-deb -x "$package" "$1/root"
	dpkg-deb -W --showformat '${Package} ${Version}\n' "$package"
done
# s6-svscan looks for the others of s6 in /usr/bin, where the benchmark lets it see these; their scripts need a shell.
cp /bin/sh "$1/root/usr/bin/sh"
