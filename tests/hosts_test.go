package tests

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// fakeSSH executes the command for a host here, with the runtime directory that the site has for
// the host. Some hosts fail as real ones do.
const fakeSSH = `#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
case $host in
down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255 ;;
hang) exec sleep 1000 ;;
chatty) echo "Welcome!" ;;
bare) PATH=/none ;;
esac
export SUPERD_RUNTIME_DIR=HERE/$host
exec /bin/sh -c "$*"
`

// hostsSite returns a site with a superd for each of the hosts admin@a and b, which the fake ssh
// reaches.
func hostsSite(t *testing.T) *harness.Site {
	t.Helper()
	a := harness.NewSite(t, "[program.web]\ncommand = ['sh', '-c', 'echo hello; exec sleep infinity']\n")
	b := harness.NewSite(t, "[program.db]\ncommand = 'sleep infinity'\n[program.old]\ncommand = 'sleep infinity'\nautostart = false\n")
	a.Start()
	b.Start()
	a.WaitLog("web", "hello\n")
	a.WaitState("web", "running")
	b.WaitState("db", "running")
	for host, of := range map[string]*harness.Site{"admin@a": a, "b": b} {
		if err := os.Symlink(of.RuntimeDir, a.Path(host)); err != nil {
			t.Fatal(err)
		}
	}
	a.Write("ssh", strings.ReplaceAll(fakeSSH, "HERE", a.Dir))
	a.Chmod("ssh", 0o755)
	a.Env = append(a.Env, "SUPERD_SSH="+a.Path("ssh"))
	return a
}

// TestHosts: a command on several hosts prints one table, or lines with the name of the host, and a
// host that fails takes nothing from the others.
func TestHosts(t *testing.T) {
	t.Parallel()
	s := hostsSite(t)
	s.Write("hosts", "# ours\nadmin@a\n\nb # the second\n")
	for _, tt := range []struct {
		name        string
		args        []string
		exit        int
		out, errOut string // regular expressions
	}{
		{"a table", []string{"--host", "admin@a,b", "status", "--brief"}, 0,
			`^HOST +NAME +STATE +PID *\nadmin@a +web +running +\d+\nb +db +running +\d+\nb +old +stopped\n$`, "^$"},
		{"hosts of a file", []string{"--hosts-file", "hosts", "status", "--brief"}, 0, `admin@a +web +running(.|\n)*b +db +running`, "^$"},
		{"without ctl", []string{"status", "--brief", "--host", "admin@a"}, 0, `^HOST(.|\n)*admin@a +web +running`, "^$"},
		{"a host is down", []string{"--host", "down,b", "status", "--brief"}, 1,
			`\ndown .*ssh: connect to host down port 22: Connection refused\nb +db `, "^$"},
		{"a shell prints a greeting", []string{"--host", "chatty,b", "status"}, 1, `chatty .*unexpected output: "Welcome!(.|\n)*b +db `, "^$"},
		{"superd is not installed", []string{"--host", "bare,b", "status"}, 1, `bare .*superd is not in its PATH`, "^$"},
		{"no superd runs", []string{"--host", "none,b", "status"}, 4, `none .*no superd answers on .*none/superd.sock`, "^$"},
		{"the highest status counts", []string{"--host", "b,admin@a", "status", "old", "web"}, 1, "", `(?m)^(b|admin@a) +no program`},
		{"not up", []string{"--host", "b", "status", "old"}, 3, "old +stopped", "^$"},
		{"results", []string{"--host", "admin@a,b", "restart", "*"}, 0, `(?m)^admin@a  web: running`, "^$"},
		{"lines", []string{"--host", "admin@a,b", "logs", "*"}, 0, `(?m)^admin@a  (.*\| )?(.* )?hello$`, ""},
		{"a wrong flag", []string{"--host", "b", "status", "--jsn"}, 2, "^$", "^superd: unknown flag"},
		{"an option as a host", []string{"--host", "-oProxyCommand=x", "status"}, 2, "^$", "not a host"},
		{"proxy", []string{"--host", "b", "proxy"}, 2, "^$", "on this host only"},
		{"the flags go along", []string{"--host", "b", "--runtime-dir", s.Path("it's not there"), "status"}, 4, "^$", `^b  no superd answers on .*it's not there`},
	} {
		r := s.Run(append([]string{"ctl"}, tt.args...)...)
		if tt.args[0] == "status" {
			r = s.Run(tt.args...)
		}
		if r.Exit != tt.exit || !regexp.MustCompile(tt.out).MatchString(r.Out) || !regexp.MustCompile(tt.errOut).MatchString(r.ErrOut) {
			t.Errorf("%s: exit status %d\n%s\n%s\nwant %d, %q, %q", tt.name, r.Exit, r.Out, r.ErrOut, tt.exit, tt.out, tt.errOut)
		}
	}
}

// TestHostsJSON: arrays of several hosts are joined, and each object names its host.
func TestHostsJSON(t *testing.T) {
	t.Parallel()
	s := hostsSite(t)
	r := s.Run("ctl", "--host", "admin@a,down,b", "status", "--json")
	var all []struct{ Host, Name, State, Error string }
	if err := json.Unmarshal([]byte(r.Out), &all); err != nil || r.Exit != 1 || len(all) != 4 ||
		all[0].Host != "admin@a" || all[0].Name != "web" || all[1].Host != "down" || !strings.Contains(all[1].Error, "refused") ||
		all[2].Host != "b" || all[2].Name != "db" || all[3].Name != "old" {
		t.Errorf("status --json: %v, exit status %d, %q, %q", err, r.Exit, r.Out, r.ErrOut)
	}
	r = s.Run("ctl", "--host", "down", "--host", "admin@a", "version", "--json")
	if !strings.HasPrefix(r.Out, "[\n{\"host\":\"down\",\"error\":") || !strings.Contains(r.Out, "\n{\"host\":\"admin@a\",\"version\":") {
		t.Errorf("version --json: %q, %q", r.Out, r.ErrOut)
	}
	r = s.Run("ctl", "--host", "admin@a,down", "events", "--json", "-n", "1")
	first, second, _ := strings.Cut(r.Out, "\n")
	if !strings.HasPrefix(first, `{"host":"admin@a","cursor":`) || !strings.HasPrefix(second, `{"host":"down","error":`) {
		t.Errorf("events --json: %q, %q", r.Out, r.ErrOut)
	}
}

// TestHostHangs: a host that does not answer is given up after a time, others are shown, and its
// ssh is ended.
func TestHostHangs(t *testing.T) {
	t.Parallel()
	s := hostsSite(t)
	begin := time.Now()
	r := s.Run("ctl", "--host", "hang,admin@a", "--host-timeout", "2s", "status", "--brief")
	if r.Exit != 1 || !strings.Contains(r.Out, "no answer within 2s") || !strings.Contains(r.Out, "web") {
		t.Errorf("status: exit status %d after %v, %q, %q", r.Exit, time.Since(begin), r.Out, r.ErrOut)
	}
	harness.Until(t, "ssh has ended", func() bool {
		for _, p := range s.Processes() {
			if strings.Contains(p.Command, "sleep 1000") {
				return false
			}
		}
		return true
	})
}

// TestHostsFollow: lines of hosts appear as they come, and the end of the client ends all that it
// has started.
func TestHostsFollow(t *testing.T) {
	t.Parallel()
	s := hostsSite(t)
	out := new(harness.Output)
	follow := s.Command("ctl", "--host", "admin@a,b", "logs", "-f", "*")
	follow.Stdout = out
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	out.Wait(t, "hello")
	if err := follow.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = follow.Wait()
}
