#!/bin/sh
# Installs Debian's supervisor for make test-switch, without starting its service, and unpacks the
# units of Debian's daemons into the directory $1, without installing these. Not root, or not
# Debian: says what is missing and fails.
set -eu

units=$1
packages="apache2 bind9 cron haproxy memcached mosquitto nginx-common openssh-server pgbouncer
	php8.2-fpm postfix postgresql-common prometheus-node-exporter rabbitmq-server redis-server
	rsyslog unbound varnish"

if [ ! -e /usr/bin/supervisord ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "install-deps: missing: supervisor; install it, or run this as root on Debian" >&2
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
	trap '[ -z "$policy" ] || rm -f "$policy"' EXIT
	apt-get update -q
	apt-get install -q -y --no-install-recommends supervisor
fi

[ ! -e "$units/complete" ] || exit 0
mkdir -p "$units/packages"
cd "$units/packages"
# shellcheck disable=SC2086 # a list of package names
apt-get download -q $packages
for package in *.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$units" --wildcards './lib/systemd/system/*' \
		'./usr/lib/systemd/system/*' 2>/dev/null || true # one of the two has them
done
rm -f ./*.deb
: >"$units/complete"
