#!/bin/sh
# Installs supervisor and Ansible as Debian ships them, if they are missing, and starts no service.
# Not root, or not Debian: says what is missing and fails.
set -eu

[ ! -x /usr/bin/supervisorctl ] || [ ! -x /usr/bin/ansible-playbook ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "install-deps: missing: supervisor or ansible; install them, or run this as root on Debian" >&2
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
trap 'rm -f ${policy:+"$policy"}' EXIT
apt-get update -q
apt-get install -q -y --no-install-recommends supervisor ansible
