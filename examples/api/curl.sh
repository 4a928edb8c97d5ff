#!/bin/sh
# Uses superd's control socket with curl: restarts a program, and shows its last lines and events.
#
#   ./curl.sh /run/superd/superd.sock web
set -eu
socket=${1:?usage: curl.sh SOCKET NAME} name=${2:?usage: curl.sh SOCKET NAME}

# api prints an answer: JSON, also of an error, after which the exit status is not 0. A request that
# waits for programs may take longer.
api() {
	curl --silent --show-error --fail-with-body --max-time 60 --unix-socket "$socket" "$@"
}

# Parameters of a POST are a form, those of a GET with -G a query; curl escapes them. Of a name in
# the path it does not, so this name is a parameter.
api http://superd/v1/programs/restart --data-urlencode "name=$name" --data timeout=30s
api -G http://superd/v1/status --data brief=1 --data-urlencode "name=$name"
api -G http://superd/v1/logs --data lines=3 --data-urlencode "name=$name"
api -G http://superd/v1/events --data lines=3 --data-urlencode "name=$name"
