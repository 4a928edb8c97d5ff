// Package supervisor runs Debian's supervisord and a superd beside each other, and gives the same
// commands to both: by Debian's supervisorctl, unchanged, by superd's own, and by Ansible.
//
// make test-switch installs supervisor and Ansible, and runs this.
package supervisor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

var enabled = flag.Bool("supervisor", false, "run the tests, which need supervisor and ansible")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

const supervisordConf = `[unix_http_server]
file=DIR/supervisor.sock
[supervisord]
logfile=DIR/supervisord.log
pidfile=DIR/supervisord.pid
childlogdir=DIR
user=root
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://DIR/supervisor.sock
[program:web]
command=sleep infinity
numprocs=2
process_name=%(program_name)s_%(process_num)02d
startsecs=0
[program:lines]
command=sh -c 'echo one; echo two; exec sleep infinity'
startsecs=0
[program:quiet]
command=sleep infinity
autostart=false
startsecs=0
[program:crash]
command=false
autostart=false
autorestart=false
startretries=0
[program:x1]
command=sleep infinity
startsecs=0
[program:x2]
command=sleep infinity
startsecs=0
[group:g]
programs=x1,x2
`

// moreSupervisord and moreSuperd are a program that is added later.
const (
	moreSupervisord = "[program:more]\ncommand=sleep infinity\nstartsecs=0\n"
	moreSuperd      = "[program.more]\ncommand = 'sleep infinity'\n"
)

const superdConf = `[compat]
supervisor_socket = "SOCKET"

[program.web]
command = "sleep infinity"
replicas = 2

[program.lines]
command = ["sh", "-c", "echo one; echo two; exec sleep infinity"]

[program.quiet]
command = "sleep infinity"
autostart = false

[program.crash]
command = "false"
autostart = false
restart = "never"
ready = { exec = ["sleep", "infinity"] } # supervisord waits for startsecs

[program.x1]
command = "sleep infinity"
groups = ["g"]

[program.x2]
command = "sleep infinity"
groups = ["g"]
`

// A pair is a supervisord and a superd with the same programs.
type pair struct {
	t          *testing.T
	dir        string // of supervisord
	superd     *harness.Site
	ours, real string // configurations of Debian's supervisorctl
}

func newPair(t *testing.T) *pair {
	t.Helper()
	if !*enabled {
		t.Skip("make test-switch runs this")
	}
	p := &pair{t: t, superd: harness.NewSite(t, "")}
	p.dir = p.superd.Path("supervisord")
	p.superd.Mkdir("supervisord")
	p.real = p.superd.Write("supervisord/supervisord.conf", p.supervisordConf(""))
	socket := p.superd.Path("compat.sock")
	p.ours = p.superd.Write("ours.conf", "[supervisorctl]\nserverurl=unix://"+socket+"\n")
	p.superd.Configure(p.superdConf(""))
	p.superd.Start()
	harness.Until(t, "superd answers clients of supervisord", func() bool { return exists(socket) })
	if out, err := exec.Command("supervisord", "-c", p.real).CombinedOutput(); err != nil {
		t.Fatalf("supervisord: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		p.run("supervisorctl", "-c", p.real, "shutdown")
		harness.Until(t, "supervisord ends", func() bool { return !exists(filepath.Join(p.dir, "supervisord.pid")) })
	})
	harness.Until(t, "supervisord answers", func() bool {
		_, status := p.run("supervisorctl", "-c", p.real, "pid")
		return status == 0
	})
	for _, conf := range []string{p.real, p.ours} {
		harness.Until(t, "all programs run", func() bool {
			out, _ := p.run("supervisorctl", "-c", conf, "status")
			return strings.Count(out, "RUNNING") == 5
		})
	}
	return p
}

func (p *pair) supervisordConf(more string) string {
	return strings.ReplaceAll(supervisordConf, "DIR", p.dir) + more
}

func (p *pair) superdConf(more string) string {
	return strings.ReplaceAll(superdConf, "SOCKET", p.superd.Path("compat.sock")) + more
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const commandTimeout = 5 * time.Minute

func (p *pair) run(name string, args ...string) (out string, status int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "ANSIBLE_NOCOLOR=1", "HOME="+p.superd.Dir)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// Parts of a transcript that differ between runs.
var variable = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`pid \d+, uptime [0-9:]+`), "pid N, uptime T"},
	{regexp.MustCompile(`[A-Z][a-z]{2} \d\d \d\d:\d\d [AP]M`), "DATE"},
	{regexp.MustCompile(`(?m)^\d+$`), "N"},
	{regexp.MustCompile(`(?m)^(crash +FATAL +).*$`), "${1}WHY"},
}

func normal(out string) string {
	for _, v := range variable {
		out = v.pattern.ReplaceAllString(out, v.with)
	}
	return out
}

// sorted returns lines that supervisord prints in the order in which processes have ended.
func sorted(out string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(out, "\n")), "\n")
}

// commands of a session; "#" before one begins what changes the files.
var commands = []string{
	"status", "status web:*", "status web:web_01", "status nosuch", "status nosuch:*", "status web",
	"start quiet", "start quiet", "start nosuch", "start nosuch:*", "start crash", "start",
	"status crash", "stop g:*", "status g:*", "start g:*", "start g:x1", "stop g:x1 g:x2", "stop g:x1",
	"restart web:*", "restart quiet", "stop web:web_00", "start web:web_00",
	"pid", "pid quiet", "pid all", "pid nosuch", "pid crash", "signal HUP nosuch", "signal NOSIG lines",
	"signal CONT lines", "signal CONT web:*", "signal CONT all", "signal CONT", "signal CONT crash",
	"tail lines", "tail -4 lines", "tail nosuch", "tail lines nochannel", "reread", "update",
	"clear lines", "tail lines", "clear quiet crash", "clear nosuch", "clear", "clear all",
	"add quiet", "add nosuch", "version", "stop quiet", "status quiet",
	"# added", "reread", "update", "status more", "avail",
	"# removed", "reread", "update", "status more", "stop all",
}

// TestTranscripts: the same session gives the same transcript.
func TestTranscripts(t *testing.T) {
	clients := map[string]func(p *pair) []string{
		"Debian's supervisorctl": func(p *pair) []string { return []string{"supervisorctl", "-c", p.ours} },
		"superd's supervisorctl": func(p *pair) []string {
			binary, err := exec.LookPath("superd")
			if err != nil {
				p.t.Fatal(err)
			}
			link := p.superd.Path("supervisorctl")
			if err := os.Symlink(binary, link); err != nil {
				p.t.Fatal(err)
			}
			return []string{link, "-c", p.superd.RuntimeDir}
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			own := client(p)
			for i, command := range commands {
				switch command {
				case "# added":
					p.superd.Write("supervisord/supervisord.conf", p.supervisordConf(moreSupervisord))
					p.superd.Configure(p.superdConf(moreSuperd))
					continue
				case "# removed":
					p.superd.Write("supervisord/supervisord.conf", p.supervisordConf(""))
					p.superd.Configure(p.superdConf(""))
					continue
				}
				args := strings.Fields(command)
				want, wantStatus := p.run("supervisorctl", append([]string{"-c", p.real}, args...)...)
				got, status := p.run(own[0], append(own[1:], args...)...)
				got, want = normal(got), normal(want)
				if strings.HasSuffix(command, ":*") || strings.HasSuffix(command, "all") {
					got, want = sorted(got), sorted(want)
				}
				if got != want || status != wantStatus {
					t.Errorf("%d: %s: status %d:\n%swant status %d:\n%s", i, command, status, got, wantStatus, want)
				}
			}
		})
	}
}

const playbook = `- hosts: localhost
  connection: local
  gather_facts: false
  vars: { config: "CONF", ansible_python_interpreter: /usr/bin/python3 }
  tasks:
    - { name: started, community.general.supervisorctl: { name: quiet, state: started, config: "{{ config }}" } }
    - { name: started again, community.general.supervisorctl: { name: quiet, state: started, config: "{{ config }}" } }
    - { name: restarted, community.general.supervisorctl: { name: quiet, state: restarted, config: "{{ config }}" } }
    - { name: group, community.general.supervisorctl: { name: "g:", state: restarted, config: "{{ config }}" } }
    - { name: signalled, community.general.supervisorctl: { name: lines, state: signalled, signal: CONT, config: "{{ config }}" } }
    - { name: stopped, community.general.supervisorctl: { name: quiet, state: stopped, config: "{{ config }}" } }
    - { name: stopped again, community.general.supervisorctl: { name: quiet, state: stopped, config: "{{ config }}" } }
    - { name: present, community.general.supervisorctl: { name: lines, state: present, config: "{{ config }}" } }
    - { name: absent, community.general.supervisorctl: { name: quiet, state: absent, config: "{{ config }}" } }
    - { name: absent again, community.general.supervisorctl: { name: quiet, state: absent, config: "{{ config }}" } }
    - { name: present again, community.general.supervisorctl: { name: quiet, state: present, config: "{{ config }}" } }
`

// taskResult finds in the output of Ansible what became of each task.
var taskResult = regexp.MustCompile(`(?m)^(TASK \[[^\]]*\]|changed:|ok:|fatal:|localhost +:.*)`)

// TestAnsible: a playbook changes the same with both.
func TestAnsible(t *testing.T) {
	p := newPair(t)
	var results []string
	for _, conf := range []string{p.real, p.ours} {
		file := p.superd.Write(fmt.Sprintf("play%d.yml", len(results)), strings.ReplaceAll(playbook, "CONF", conf))
		out, status := p.run("ansible-playbook", "-i", "localhost,", file)
		if status != 0 {
			t.Errorf("ansible-playbook with %s: status %d\n%s", conf, status, out)
		}
		results = append(results, strings.Join(taskResult.FindAllString(out, -1), "\n"))
	}
	if results[0] != results[1] {
		t.Errorf("with supervisord:\n%s\nwith superd:\n%s", results[0], results[1])
	}
	t.Log(results[1])
}
