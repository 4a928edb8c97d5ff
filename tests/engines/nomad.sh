#!/bin/bash
# Runs in the bed of make test-engines, whose cgroups and network Nomad may have: runs the exported
# jobs of testdata/nomad.toml, then superd with all of it, and ends with the first thing that is not as
# it should be. Arguments: the directories of the jobs, of the job with superd, and of jobs to validate.
set -eu

agent=
until_() { # until_ COMMAND...: repeats it until it succeeds, for 60 s or until the agent ends
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then return; fi
		if [ -n "$agent" ] && ! kill -0 "$agent" 2>/dev/null; then break; fi
		sleep 0.2
	done
	echo "not within 60 s, or the agent has ended: $*" >&2
	/opt/nomad status >&2 || true
	for job in shop shop-once shop-whole; do /opt/nomad job allocs -verbose "$job" >&2 || true; done
	tail -n 60 /run/nomad.log >&2
	exit 1
}
has() { [ "$(cat "$1")" = "$2" ]; }
nomad() { # nomad COMMAND...: its output is shown only if it fails
	/opt/nomad "$@" >/run/command.log 2>&1 || { cat /run/command.log >&2; return 1; }
}

cat >/run/nomad.hcl <<'END'
data_dir  = "/run/nomad"
bind_addr = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  network_interface = "lo"
  max_kill_timeout  = "2m"
  template {
    disable_file_sandbox = true # for env_file
  }
  options           = { "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean" }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
END
/opt/nomad agent -config /run/nomad.hcl >/run/nomad.log 2>&1 &
agent=$!
echo WORD=done >/run/once.env
until_ eval '/opt/nomad node status | grep -q ready'
/opt/nomad version | head -1
for f in "$3"/*.hcl; do
	nomad job validate "$f"
	if grep -v -e '^Job validation successful$' -e '^$' /run/command.log >&2; then exit 1; fi # a warning
done
echo "validate: $(ls "$3" | wc -l) jobs with every key"

for f in "$1"/*.hcl; do
	nomad job validate "$f"
	nomad job run -detach "$f"
done
until_ has /run/web-0 'a $b 100% "c" 0 %%{x} ${y}'
until_ has /run/web-1 'a $b 100% "c" 1 %%{x} ${y}'
until_ has /run/once '$done'
nomad job periodic force shop-job
until_ has /run/job run
echo "run: two replicas, a one-shot and a forced run of a schedule"

nomad job scale -detach shop web 3
until_ has /run/web-2 'a $b 100% "c" 2 %%{x} ${y}'
echo "scale: a third replica"

first=$(cat /run/db-pid)
kill -KILL "$first"
until_ eval '[ "$(cat /run/db-pid)" != "$first" ]'
echo "crash: the task is restarted"

nomad job stop -purge -detach shop
until_ has /run/db-stopped stopped
until_ eval '! pgrep -x sleep'
echo "stop: by its stop signal, and nothing is left"
nomad job stop -purge -detach shop-job
rm -f /run/web-* /run/db-* /run/job /run/once

for f in "$2"/*.hcl; do
	nomad job validate "$f"
	nomad job run -detach "$f"
done
runtime() { ls -d /run/superd-*; }
until_ eval '/usr/bin/superd ready --runtime-dir "$(runtime)" db web'
until_ has /run/once '$done'
echo "whole: superd runs all programs in an allocation"
supervisor=$(/usr/bin/superd ctl version --runtime-dir "$(runtime)" --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
web=$(pgrep -x sleep | sort | head -1)
kill -KILL "$supervisor"
until_ eval '/usr/bin/superd ready --runtime-dir "$(runtime)" db web'
kill -0 "$web"
echo "whole: a superd that is killed is replaced, and its programs go on"
nomad job stop -purge -detach shop-whole
until_ has /run/db-stopped stopped
until_ eval '! pgrep -x sleep'
echo "whole: a stop is that of superd"
