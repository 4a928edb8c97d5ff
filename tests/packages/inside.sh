#!/usr/bin/env bash
# Installs, upgrades and removes superd's packages, as root under a systemd of their own.
# inside.sh deb|rpm OLD NEW EXAMPLE: the packages of two versions, the commands of docs/packages.md
set -euo pipefail

format=$1 old=$2 new=$3 example=$4
unit=superd.service
export PAGER=cat DEBIAN_FRONTEND=noninteractive

fail() {
	echo "FAIL: $*" >&2
	systemctl status --no-pager --lines 30 $unit >&2 || true
	exit 1
}
ok() { echo "ok: $*"; }
# until_true WHAT COMMAND...: waits until the command succeeds, 30 s at most.
until_true() {
	local what=$1 end=$((SECONDS + 30))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "not within 30 s: $what"
		sleep 0.05
	done
}

install() {
	case $format in
	deb) dpkg -i "$1" ;;
	rpm) rpm --upgrade --oldpackage --nodeps "$1" ;; # what it needs is installed by dpkg
	esac
}
remove() {
	case $format in
	deb) dpkg -r superd ;;
	rpm) rpm -e superd ;;
	esac
}

property() { systemctl show --property "$1" --value $unit; }
pid() { superd ctl status --json "$1" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1; }
is_up() { [ -n "$(pid idle 2>/dev/null)" ]; }
running_version() { superd ctl version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p'; }
lines() { wc -l <"$1"; }
more_than() { [ -e "$1" ] && [ "$(lines "$1")" -gt "$2" ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
has() { grep -F -e "$1" >/dev/null; } # not grep -q, which ends the pipe early
numbers=/var/log/superd/numbers.log

# same WHAT: the programs are those of before, and no number is missing in the log, or there twice.
same() {
	[ "$(pid numbers) $(pid idle)" = "$numbers_pid $idle_pid" ] ||
		fail "$1: programs were started anew: $(superd ctl status)"
	until_true "numbers goes on writing after $1" more_than $numbers "$(lines $numbers)"
	awk '$1 != NR { print "line " NR ": " $0; exit 1 }' $numbers || fail "$1: numbers are missing, or there twice"
}

! command -v superd >/dev/null || fail "superd is there before it is installed"

# --- installation
install "$old" || fail "install"
old_version=$(superd version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p')
getent group superd >/dev/null || fail "no group superd"
[ "$(systemctl is-enabled $unit)" = enabled ] || fail "$unit is $(systemctl is-enabled $unit)"
[ "$(systemctl is-enabled superd.socket || true)" = disabled ] || fail "superd.socket is enabled"
if [ "$format" = rpm ]; then
	! systemctl is-active --quiet $unit || fail "an rpm starts nothing"
	systemctl start $unit
fi
systemctl is-active --quiet $unit || fail "$unit does not run"
systemd-analyze verify /usr/lib/systemd/system/$unit 2>&1 | has $unit && fail "systemd-analyze verify"
superd check /etc/superd/superd.toml >/dev/null || fail "the configuration of the package"
[ "$(stat -c %a /run/superd /var/log/superd | paste -sd ' ')" = '711 750' ] || fail "modes of directories"
ok "installed and running: superd $old_version"

(cd / && sh -e "$example") >/tmp/example 2>&1 || fail "the example of docs/packages.md: $(cat /tmp/example)"
until_true "clock writes" more_than /var/log/superd/clock.log 0
has clock </tmp/example || fail "the example does not show clock: $(cat /tmp/example)"
rm /etc/superd/conf.d/clock.toml
ok "the example of docs/packages.md"

cat >/etc/superd/conf.d/test.toml <<'END'
[program.numbers]
command = ["sh", "-c", "n=0; while n=$((n+1)); do echo $n; sleep 0.005; done"]

[program.idle]
command = "sleep infinity"
END
systemctl reload $unit || fail "reload"
until_true "numbers writes" more_than $numbers 10
numbers_pid=$(pid numbers) idle_pid=$(pid idle)
ok "a file in conf.d, and systemctl reload"

# --- completions and man pages
bash_completes() { # bash_completes WORD...: what bash offers for the last word
	bash -c 'source /usr/share/bash-completion/bash_completion
		source /usr/share/bash-completion/completions/superd
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
		__start_superd; printf "%s\n" "${COMPREPLY[@]}"' bash "$@" 2>/dev/null # compopt says that no shell completes
}
bash_completes superd stop nu | has numbers || fail "bash completes: $(bash_completes superd stop nu)"
bash_completes superd ctl scale nu | has numbers= || fail "bash completes: $(bash_completes superd ctl scale nu)"
bash_completes superd top --ho | has --host || fail "bash completes: $(bash_completes superd top --ho)"
fish -c 'complete -C "superd logs nu"' | has numbers || fail "fish completes: $(fish -c 'complete -C "superd logs nu"')"
# shellcheck disable=SC2016 # for zsh
zsh_functions='autoload -Uz compinit; compinit -u -D; print $_comps[superd]'
if [ "$format" = rpm ]; then zsh_functions="fpath=(/usr/share/zsh/site-functions \$fpath); $zsh_functions"; fi
zsh -fc "$zsh_functions" | has _superd || fail "zsh does not know superd"
zsh -fc 'zmodload zsh/zpty; zpty z zsh -fi; zpty -w z "PS1=; fpath=(/usr/share/zsh/site-functions \$fpath); autoload -Uz compinit; compinit -u -D"
	zpty -wn z "$(printf "superd why num\t")"; while zpty -r z line "*numbers*"; do print -r -- "$line"; break; done; zpty -d z' | has numbers ||
	fail "zsh does not complete numbers"
ok "bash, fish and zsh complete the names of instances"

for page in 'superd 1' 'superd-ctl-status 1' 'superd-top 1' 'superd.toml 5'; do
	MANWIDTH=80 man "${page#* }" "${page% *}" 2>&1 | has "${page% *}" || fail "man page $page"
done
ok "man pages"

# --- who may see what
usermod --append --groups superd games
setpriv --reset-env --reuid games --regid games --init-groups superd status | has numbers || fail "a member of superd sees no status"
! setpriv --reset-env --reuid games --regid games --init-groups superd stop idle 2>/dev/null || fail "a member of superd may stop"
! setpriv --reset-env --reuid nobody --regid nogroup --clear-groups superd status >/dev/null 2>&1 || fail "others see the status"
ok "members of the group superd see programs, and may not stop them"

# --- upgrade
main=$(property MainPID)
echo '# changed by the administrator' >>/etc/superd/superd.toml
install "$new" </dev/null 2>&1 || fail "upgrade"
new_version=$(superd version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p')
[ "$new_version" != "$old_version" ] || fail "both packages have version $new_version"
[ "$(running_version)" = "$new_version" ] || fail "superd $(running_version) runs after the upgrade to $new_version"
[ "$(property MainPID)" = "$main" ] || fail "the upgrade started superd anew"
same "the upgrade"
tail -n 1 /etc/superd/superd.toml | has administrator || fail "the upgrade replaced superd.toml"
ok "upgraded to $new_version: same pids, no line lost"

# A configuration that the new binary refuses: the old one goes on, and the package is installed.
mv /etc/superd/conf.d/test.toml /etc/superd/good
echo 'comand = 1' >/etc/superd/conf.d/test.toml
install "$old" >/tmp/refused 2>&1 || fail "upgrade with a broken configuration: $(cat /tmp/refused)"
has 'the version that runs continues' </tmp/refused || fail "no word of the refused upgrade: $(cat /tmp/refused)"
mv /etc/superd/good /etc/superd/conf.d/test.toml
[ "$(running_version)" = "$new_version" ] || fail "superd $(running_version) runs after a refused upgrade"
same "a refused upgrade"
superd ctl upgrade >/dev/null || fail "ctl upgrade"
[ "$(running_version)" = "$old_version" ] || fail "superd $(running_version) runs after ctl upgrade"
same "ctl upgrade"
ok "a configuration that the new binary refuses"

systemctl disable --quiet $unit
install "$new" >/dev/null 2>&1 || fail "third upgrade"
[ "$(systemctl is-enabled $unit || true)" = disabled ] || fail "the upgrade enabled $unit"
[ "$(running_version)" = "$new_version" ] || fail "a disabled unit that runs was not upgraded"
same "the third upgrade"
systemctl stop $unit
install "$old" >/dev/null 2>&1 || fail "upgrade of what does not run"
! systemctl is-active --quiet $unit || fail "the upgrade started what was stopped"
ok "what is disabled or stopped stays so"

# --- removal
systemctl enable --quiet $unit
systemctl start $unit
until_true "idle runs" is_up
idle_pid=$(pid idle)
remove || fail "remove"
gone "$idle_pid" || fail "remove left a program"
! systemctl is-active --quiet $unit || fail "remove left $unit"
for path in /usr/bin/superd /usr/lib/systemd/system/$unit; do [ ! -e "$path" ] || fail "remove left $path"; done
for path in /etc/superd/conf.d/test.toml $numbers; do [ -e "$path" ] || fail "remove took $path"; done
ok "removed: everything stopped; configuration and logs are kept"
[ "$format" = deb ] || exit 0

install "$new" >/dev/null || fail "install after a removal"
systemctl is-active --quiet $unit || fail "$unit does not run after it was installed again"
systemctl enable --quiet superd.socket
dpkg -P superd || fail "purge"
rm -f /var/lib/dpkg/info/superd.*
left=$(find /etc /run /usr /var -xdev -path '*superd*' ! -path '/var/log/journal/*' ! -path '/var/cache/man/*')
[ -z "$left" ] || fail "purge left $left"
ok "purged: no configuration, no logs, no runtime directory"

# --- without systemd, as in a container. A superd that runs there is upgraded and shut down, too.
mount -t tmpfs none /run
dpkg -i "$old" || fail "install without systemd"
[ "$(cd / && superd ctl -c /etc/superd/superd.toml version 2>&1 >/dev/null || echo $?)" != 0 ] || fail "superd runs without systemd"
cat >/etc/superd/conf.d/test.toml <<'END'
[program.idle]
command = "sleep infinity"
END
superd run -c /etc/superd/superd.toml >/tmp/superd.log 2>&1 &
until_true "idle runs" is_up
idle_pid=$(pid idle)
dpkg -i "$new" || fail "upgrade without systemd"
[ "$(running_version) $(pid idle)" = "$new_version $idle_pid" ] || fail "not upgraded: $(running_version) $(superd status)"
dpkg -P superd || fail "purge without systemd"
gone "$idle_pid" || fail "purge without systemd left a program"
wait
ok "without systemd"
