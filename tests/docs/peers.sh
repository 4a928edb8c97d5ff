#!/bin/bash
# What a supervisor does with a program that prints a line every 100 ms and has a child in a session
# of its own. Arguments: the name of the supervisor, an empty directory. Prints lines KEY VALUE.
# TestPeers runs it in a PID namespace.
set -u
name=$1
mkdir "$2/$name"
cd "$2/$name" || exit 1
dir=$PWD

cat >program <<END
#!/bin/sh
echo \$\$ >>$dir/starts
setsid sleep 4711 &
while echo tick; do sleep 0.1; done
END
chmod +x program

with_logger() { # a service directory as runit and s6 know it, with the logger $1
	mkdir -p service/program/log
	printf '#!/bin/sh\nexec %s/program\n' "$dir" >service/program/run
	printf '#!/bin/sh\nmkdir -p %s/log\nexec %s %s/log\n' "$dir" "$1" "$dir" >service/program/log/run
	chmod +x service/program/run service/program/log/run
}

again() { :; } # starts the supervisor again, if nothing else does
case $name in
superd)
	printf '[superd]\nruntime_dir = "run"\nlog_dir = "log"\n[program.program]\ncommand = "%s/program"\n' "$dir" >superd.toml
	start() { superd run; }
	stop() { superd stop program; }
	;;
supervisord)
	cat >supervisord.conf <<-END
		[supervisord]
		nodaemon=true
		logfile=$dir/supervisord.log
		pidfile=$dir/supervisord.pid
		[unix_http_server]
		file=$dir/supervisor.sock
		[rpcinterface:supervisor]
		supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
		[supervisorctl]
		serverurl=unix://$dir/supervisor.sock
		[program:program]
		command=$dir/program
		stdout_logfile=$dir/program.log
	END
	start() { supervisord -c supervisord.conf; }
	again() { start; }
	stop() { supervisorctl -c supervisord.conf stop program; }
	;;
runit)
	with_logger svlogd
	start() { runsvdir service; }
	stop() { sv stop "$dir/service/program"; }
	;;
s6)
	with_logger s6-log
	start() { s6-svscan service; }
	stop() { s6-svc -wD -d service/program; }
	;;
pm2)
	export PM2_HOME=$dir/home
	printf '{"apps": [{"name": "program", "script": "%s/program", "interpreter": "none"}]}' "$dir" >apps.json
	start() { pm2 start apps.json && pm2 save; }
	again() { pm2 resurrect; }
	stop() { pm2 stop program; }
	;;
foreman)
	printf 'program: %s/program\nother: sleep 4712\n' "$dir" >Procfile
	start() { foreman start; }
	again() { start; }
	stop() { pkill -TERM -o -f '^foreman'; }
	;;
esac

starts() { cat starts 2>/dev/null | wc -l; }
copies() { pgrep -fc "^/bin/sh $dir/program"; }
children() { pgrep -fc '^sleep 4711'; }
lasts() { # lasts COMMAND…: whether it fails within 10 s
	for _ in $(seq 200); do
		"$@" || return 1
		sleep 0.05
	done
}
unchanged() { [ "$(starts)" = "$before" ]; }

start >start.txt 2>&1 &
before=0
lasts unchanged && { cat start.txt; exit 1; }
sleep 2.5

before=$(starts)
began=$(date +%s%N)
kill -KILL "$(tail -n 1 starts)"
if lasts unchanged; then
	echo restart never
	pkill -KILL -f '^sleep 471[12]'
	before=$(starts)
	start >start.txt 2>&1 &
	lasts unchanged
else
	echo restart $((($(date +%s%N) - began) / 1000000))
fi
sleep 2.5
echo children "$(children)"

program=$(tail -n 1 starts)
kill -KILL "$(ps -o ppid= -p "$program")"
sleep 1.5
kill -0 "$program" 2>/dev/null && echo survives yes || echo survives no
again >again.txt 2>&1 &
sleep 8
kill -0 "$program" 2>/dev/null && first=1 || first=0
echo copies "$(copies)" "$first"

stop >stop.txt 2>&1
sleep 3
echo stopped "$(copies)" "$(children)"
