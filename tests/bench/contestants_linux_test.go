package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A contestant is a way to supervise programs.
type contestant struct {
	name   string
	about  string // version, and notes about it
	delays string // its built-in delays, and the ones that the benchmark has set to zero
	mount  string // a folder that it has to see as /usr/bin
	env    []string

	// prepare writes the configuration, and returns the command that starts the contestant.
	prepare func(a *arena, programs []program) (command []string)

	// stop ends all programs and their supervisors; nil: SIGTERM.
	stop func(a *arena, first *process)

	// Commands that show the state of all programs; nil: there is no single one. Full includes
	// processor time, memory and the last line.
	brief, full func(a *arena) []string

	logs    string   // folder of its log files
	logFile string   // name there, with %s for the program
	only    []string // the measurements that it takes part in; nil: all
	peer    bool
	// Writes logs at a fraction of the others' speed, and gets less to write
	slow     bool
	restless bool           // never idle
	crashes  int            // number of single crashes that fit into the time; 0: all
	most     int            // largest number of programs; 0: any number
	cannot   map[string]why // by measure
}

// limitedCrashes is the number of single crashes for contestants that wait a second each time.
const limitedCrashes = 10

// why is the reason why something can't be measured.
type why string

// A program is what a contestant supervises.
type program struct {
	name    string
	command []string
}

// children returns programs that do nothing.
func children(a *arena, count int) []program {
	var all []program
	for i := range count {
		all = append(all, program{fmt.Sprintf("p%04d", i), []string{a.tools.child}})
	}
	return all
}

// prepareSuperd writes a configuration with the default of each key, but no backoff.
func prepareSuperd(log string, flags ...string) func(a *arena, programs []program) []string {
	return func(a *arena, programs []program) []string {
		var b strings.Builder
		fmt.Fprintf(&b, "[superd]\nruntime_dir = '%s'\nlog_dir = 'log'\n[defaults]\nbackoff = { initial = '1ns' }\nlog = { %s }\n", a.run, log)
		for _, p := range programs {
			fmt.Fprintf(&b, "[program.%s]\ncommand = ['%s']\n", p.name, strings.Join(p.command, "', '"))
		}
		a.write("superd.toml", b.String())
		return append([]string{a.tools.superd, "run", "-c", a.path("superd.toml")}, flags...)
	}
}

func superdStatus(more ...string) func(a *arena) []string {
	return func(a *arena) []string {
		return append([]string{a.tools.superd, "ctl", "--runtime-dir", a.run, "status"}, more...)
	}
}

// bigFiles is the part of a configuration for log files of 100 MB, all of them kept.
const bigFiles = "max_size = '100MB', keep = 10000"

func superdContestant(name, about string, flags ...string) *contestant {
	return &contestant{
		name: name, about: about,
		delays:  "a backoff of 100 ms before the first restart, here set to 1 ns",
		prepare: prepareSuperd(bigFiles, flags...),
		brief:   superdStatus("--brief"),
		full:    superdStatus(),
		logs:    "log", logFile: "log/%s.log",
	}
}

// contestants returns all contestants, the yardstick first and superd next.
func contestants(k *tools) []*contestant {
	all := []*contestant{
		{
			name: "yardstick", about: "[tests/bench/c](../tests/bench/c): posix_spawn, pidfds and epoll; for output splice(2)",
			prepare: func(a *arena, programs []program) []string {
				return append([]string{a.tools.yardstick, "run", a.path("sock"), strconv.Itoa(len(programs))}, programs[0].command...)
			},
			brief: func(a *arena) []string {
				return []string{a.tools.yardstick, "status", a.path("sock")}
			},
			cannot: map[string]why{"recovery": "it keeps nothing", "full status": "it knows names and pids only"},
		},
		superdContestant("superd", "as usual: with the keeper, and default logs"),
		superdContestant("superd --no-keeper", "as under systemd, which is the keeper", "--no-keeper"),
	}
	all[2].only = []string{"programs=10", "programs=1000", "recovery=1000"}
	if k.peers == "" {
		return all
	}
	return append(all, supervisorContestant(k), runitContestant(k), s6Contestant(k), daemontoolsContestant(k))
}

func supervisorContestant(k *tools) *contestant {
	return &contestant{
		name: "supervisor", peer: true,
		about:  k.versions["supervisor"] + "; Python, one process, no memory of what ran before",
		delays: "looks for exits and new output at each event, at least once a second",
		env:    []string{"PYTHONPATH=" + k.peers + "/root/usr/lib/python3/dist-packages", "PYTHONDONTWRITEBYTECODE=1"},
		prepare: func(a *arena, programs []program) []string {
			a.mkdir("log")
			var b strings.Builder
			fmt.Fprintf(&b, "[supervisord]\nnodaemon=true\nlogfile=%[1]s/supervisord.log\npidfile=%[1]s/pid\nchildlogdir=%[1]s/log\nminfds=%[2]d\nidentifier=bench\n"+
				"[unix_http_server]\nfile=%[1]s/sock\n[supervisorctl]\nserverurl=unix://%[1]s/sock\n"+
				"[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n", a.dir, min(200+3*len(programs), files()))
			for _, p := range programs {
				fmt.Fprintf(&b, "[program:%s]\ncommand=%s\nautorestart=true\nredirect_stderr=true\nstdout_logfile=%s/log/%s.log\nstdout_logfile_maxbytes=100MB\nstdout_logfile_backups=1000\n",
					p.name, strings.Join(p.command, " "), a.dir, p.name)
			}
			a.write("supervisord.conf", b.String())
			return []string{"/usr/bin/python3", a.tools.bin("supervisord"), "-n", "-c", a.path("supervisord.conf")}
		},
		full: func(a *arena) []string {
			return []string{"/usr/bin/python3", a.tools.bin("supervisorctl"), "-c", a.path("supervisord.conf"), "status"}
		},
		logs: "log", logFile: "log/%s.log",
		crashes:  limitedCrashes,
		restless: true,
	}
}

// files returns the limit of open files.
func files() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, 1<<20))
}

// prepareFolders writes a service directory for each program, with a logger of its own. run is the
// program itself if it has no arguments: then there is no shell in between. start, with the folder
// of all these, starts the contestant.
func prepareFolders(logger, config string, start ...string) func(a *arena, programs []program) []string {
	return func(a *arena, programs []program) []string {
		for _, p := range programs {
			dir := "svc/" + p.name
			a.mkdir(dir + "/log/main")
			if len(p.command) == 1 {
				a.link(p.command[0], dir+"/run")
			} else {
				a.write(dir+"/run", "#!/bin/sh\nexec "+strings.Join(p.command, " ")+"\n")
			}
			a.write(dir+"/log/run", "#!/bin/sh\nexec "+logger+" ./main\n")
			if config != "" {
				a.write(dir+"/log/main/config", config)
			}
		}
		return append(slices.Clone(start), a.path("svc"))
	}
}

func (a *arena) link(to, name string) {
	a.Helper()
	if err := os.Symlink(to, a.path(name)); err != nil {
		a.Fatal(err)
	}
}

// folders returns the service directories.
func (a *arena) folders() []string {
	found, _ := filepath.Glob(a.path("svc/*"))
	return found
}

func runitContestant(k *tools) *contestant {
	return &contestant{
		name: "runit with svlogd", peer: true,
		about:   k.versions["runit"] + "; a process for each program and each logger",
		delays:  "a second if a program has run for less; looks for new services every 5 s",
		prepare: prepareFolders("svlogd", "s100000000\nn1000\n", "runsvdir"),
		stop:    func(a *arena, first *process) { first.signal(a, syscall.SIGHUP) },
		brief: func(a *arena) []string {
			return append([]string{a.tools.bin("sv"), "status"}, a.folders()...)
		},
		logs: "svc", logFile: "svc/%s/log/main/current",
		slow: true,
		most: 1000,
	}
}

func s6Contestant(k *tools) *contestant {
	return &contestant{
		name: "s6 with s6-log", peer: true,
		about:   k.versions["s6"] + "; a process for each program and each logger, and one that supervises each of these",
		delays:  "a second between two starts of a program",
		mount:   k.peers + "/root/usr/bin",
		env:     []string{"LD_LIBRARY_PATH=" + k.libraries()},
		prepare: prepareFolders("s6-log n1000 s100000000", "", "/usr/bin/s6-svscan", "-c", "20000"),
		logs:    "svc", logFile: "svc/%s/log/main/current",
		slow:    true,
		crashes: limitedCrashes,
	}
}

func daemontoolsContestant(k *tools) *contestant {
	return &contestant{
		name: "daemontools with multilog", peer: true,
		about:   k.versions["daemontools"] + "; a process for each program and each logger, and one that supervises each of these",
		delays:  "a second if a program has run for less; looks for new services every 5 s",
		prepare: prepareFolders("multilog s16777215 n1000", "", "svscan"),
		stop: func(a *arena, first *process) {
			first.signal(a, syscall.SIGTERM)
			var all []string
			for _, dir := range a.folders() {
				all = append(all, dir, dir+"/log")
			}
			a.start(append([]string{"svc", "-dx"}, all...)...)
		},
		brief: func(a *arena) []string {
			return append([]string{a.tools.bin("svstat")}, a.folders()...)
		},
		logs: "svc", logFile: "svc/%s/log/main/current",
		slow: true,
		most: 1000,
	}
}
