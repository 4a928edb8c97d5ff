#!/bin/sh
# Installs the daemons of make test-daemons as Debian ships them, and only what is missing. No
# service is started. Not root, or not Debian: says what is missing and fails.
set -eu

missing=
need() { # need PACKAGE FILE: FILE comes with PACKAGE
	[ -e "$2" ] || missing="$missing $1"
}
need nginx /usr/sbin/nginx
need redis-server /usr/bin/redis-server
need redis-tools /usr/bin/redis-cli
need mosquitto /usr/sbin/mosquitto
need mosquitto-clients /usr/bin/mosquitto_pub
need bind9 /usr/sbin/named
need bind9-dnsutils /usr/bin/dig
need memcached /usr/bin/memcached
need haproxy /usr/sbin/haproxy
need php-fpm /usr/sbin/php-fpm8.2
need cron /usr/sbin/cron
need libfaketime /usr/share/doc/libfaketime
need unbound /usr/sbin/unbound
need python3-celery /usr/lib/python3/dist-packages/celery/__init__.py
need python3-redis /usr/lib/python3/dist-packages/redis/__init__.py
need openssh-server /usr/sbin/sshd
need openssh-client /usr/bin/ssh
need iproute2 /usr/sbin/ip
need apache2 /usr/sbin/apache2
need pgbouncer /usr/sbin/pgbouncer
need postfix /usr/sbin/postfix
need prometheus-node-exporter /usr/bin/prometheus-node-exporter
need python3-amqp /usr/lib/python3/dist-packages/amqp/__init__.py
need rabbitmq-server /usr/sbin/rabbitmqctl
need rsyslog /usr/sbin/rsyslogd
need varnish /usr/sbin/varnishd
need apache2-utils /usr/bin/ab
need gunicorn /usr/bin/gunicorn
need nodejs /usr/bin/node
need python3-uvicorn /usr/lib/python3/dist-packages/uvicorn/__init__.py
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"

[ -n "$missing" ] || exit 0
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
echo "create_main_cluster = false" >$conf # the test makes its own
trap 'rm -f "$conf" ${policy:+"$policy"}' EXIT
apt-get update -q
# shellcheck disable=SC2086 # a list of package names
apt-get install -q -y --no-install-recommends $missing
