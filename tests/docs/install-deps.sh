#!/bin/sh
# Installs what make docs needs, and with a directory as $1 also what make test-docs needs, as Debian
# ships it, and only what is missing; pm2 comes into the directory by npm. No service is started. Not
# root, or not Debian: says what is missing and fails.
set -eu

missing=
need() { # need PACKAGE FILE: FILE comes with PACKAGE
	[ -e "$2" ] || missing="$missing $1"
}
need mkdocs /usr/bin/mkdocs
need mkdocs-material /usr/share/mkdocs/themes/material/main.html
if [ $# -gt 0 ]; then
	need chromium /usr/bin/chromium
	need apache2-utils /usr/bin/ab
	need curl /usr/bin/curl
	need dumb-init /usr/bin/dumb-init
	need iproute2 /usr/sbin/ip
	need nginx /usr/sbin/nginx
	need procps /usr/bin/pgrep
	need python3-psycopg2 /usr/lib/python3/dist-packages/psycopg2/__init__.py
	need python3-redis /usr/lib/python3/dist-packages/redis/__init__.py
	need redis-server /usr/bin/redis-server
	need redis-tools /usr/bin/redis-cli
	need ruby-foreman /usr/bin/foreman
	need runit /usr/bin/runsvdir
	need s6 /usr/bin/s6-svscan
	need supervisor /usr/bin/supervisord
	need tini /usr/bin/tini
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
	command -v npm >/dev/null 2>&1 || missing="$missing npm"
fi

if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "install-deps: missing:$missing; install them, or run this as root on Debian" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	policy=/usr/sbin/policy-rc.d
	clusters=/etc/postgresql-common/createcluster.d
	conf=$clusters/superd-tests.conf
	if [ -e $policy ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod +x $policy
	fi
	mkdir -p $clusters
	echo "create_main_cluster = false" >$conf # the page makes its own
	trap 'rm -f "$conf" ${policy:+"$policy"}' EXIT
	apt-get update -q
	# shellcheck disable=SC2086 # a list of package names
	apt-get install -q -y --no-install-recommends $missing
fi
pm2=7.0.4
[ $# -eq 0 ] || [ -e "$1/node_modules/.bin/pm2" ] ||
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$1" pm2@$pm2
