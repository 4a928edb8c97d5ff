#!/bin/sh
# Installs what the tests need beside Go, git and make, and only what is missing.
# Not root, or not Debian: says what is missing and fails.
set -eu

missing=
need() { # need PACKAGE COMMAND: COMMAND comes with PACKAGE
	command -v "$2" >/dev/null 2>&1 || missing="$missing $1"
}
need gcc gcc               # the race detector needs cgo
need coreutils env
need util-linux setpriv
need bash bash
need systemd systemd-notify   # a program that tells that it is ready
need perl-base perl           # a chain of forks that is fast enough
need python3 python3          # its http.server, as a program
need curl curl                # an example of the API
need tmux tmux                 # a terminal for superd top
need postgresql-client pg_isready
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"    # a database
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ] || missing="$missing ca-certificates"

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
case $missing in *" postgresql"*)
	# Its package would make a cluster and start it. The tests make their own, and start no service.
	clusters=/etc/postgresql-common/createcluster.d
	policy=/usr/sbin/policy-rc.d
	mkdir -p $clusters
	echo "create_main_cluster = false" >$clusters/superd-tests.conf
	if [ -e $policy ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod +x $policy
	fi
	trap 'rm -f "$clusters/superd-tests.conf" ${policy:+"$policy"}' EXIT
esac
# shellcheck disable=SC2086 # a list of package names
apt-get install -q -y --no-install-recommends $missing
