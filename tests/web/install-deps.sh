#!/bin/sh
# Installs chromium as Debian ships it, and node's npm, if they are missing, and fetches axe-core into
# the directory $1. Not root, or not Debian: says what is missing and fails.
set -eu

missing=
[ -x /usr/bin/chromium ] || missing="$missing chromium"
command -v npm >/dev/null 2>&1 || missing="$missing npm"
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# shellcheck disable=SC2086 # a list of package names
	apt-get install -q -y --no-install-recommends $missing
fi
axe=4.14.1
[ -e "$1/node_modules/axe-core/axe.min.js" ] ||
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$1" axe-core@$axe
