package tests

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// A developer has a project in the directory shop of a site, and a home for projects there.
type developer struct {
	*harness.Site
	dir string
}

// newDeveloper makes a project with these programs in a Procfile.
func newDeveloper(t *testing.T, procfile string) *developer {
	t.Helper()
	s := harness.NewSite(t, "")
	s.BuildUI()
	s.Mkdir("x")
	s.Chmod("x", 0o700)
	s.Env = append(s.Env, "XDG_RUNTIME_DIR="+s.Path("x"), "HOME="+s.Dir, "XDG_STATE_HOME=", "PORT=", "TERM=xterm", "DIR="+s.Dir)
	d := &developer{s, s.Path("shop")}
	s.Mkdir("shop")
	s.Write("shop/Procfile", procfile)
	return d
}

// in runs superd in the directory of the project.
func (d *developer) in(args ...string) harness.Result {
	d.T.Helper()
	env := d.Env
	defer func() { d.Env = env }()
	d.Env = append(slices.Clip(env), "PWD="+d.dir)
	cmd := d.Command(args...)
	cmd.Dir = d.dir
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the exit status tells
	return harness.Result{Exit: cmd.ProcessState.ExitCode(), Out: out.String(), ErrOut: errOut.String()}
}

// must is in, and fails the test unless the exit status is 0.
func (d *developer) must(args ...string) string {
	d.T.Helper()
	r := d.in(args...)
	if r.Exit != 0 {
		d.T.Fatalf("superd %s: exit status %d\n%s%s", strings.Join(args, " "), r.Exit, r.Out, r.ErrOut)
	}
	return r.Out
}

// up runs superd up in a terminal, and waits until the project is listed as running.
func (d *developer) up(args ...string) (*harness.Terminal, *exec.Cmd) {
	d.T.Helper()
	terminal := harness.NewTerminal(d.T, 120, 40)
	cmd := terminal.Command(d.Site, append([]string{"up"}, args...)...)
	cmd.Dir = d.dir
	d.start(cmd)
	return terminal, cmd
}

func (d *developer) start(cmd *exec.Cmd) {
	d.T.Helper()
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		harness.Until(d.T, "the project ends with the test", func() bool { return len(d.Processes()) == 0 })
	})
	harness.Until(d.T, "the project runs", func() bool { return len(d.projects()) > 0 })
}

// A project is one as superd ls shows it.
type project struct {
	Name, Directory, File, State string
	Pid                          int
	Runtime                      string `json:"runtime_dir"`
	Programs                     []struct{ Name, State string }
}

func (d *developer) projects() (all []project) {
	d.T.Helper()
	if err := json.Unmarshal([]byte(d.must("ls", "--json")), &all); err != nil {
		d.T.Fatal(err)
	}
	return all
}

// waitLeft waits until no process of the site is left.
func (d *developer) waitLeft() {
	d.T.Helper()
	harness.Until(d.T, "nothing is left", func() bool { return len(d.Processes()) == 0 })
}

const shop = `web: echo web on $PORT as $PS says $GREETING; exec sleep 1000
worker: echo worker on $PORT; echo no line end | tr -d '\n'; exec sleep 1000
css: trap 'echo css ends; exit 0' TERM; echo css on $PORT; while :; do sleep 0.05; done
`

// TestUp: the programs run with foreman's ports and the .env, their lines have prefixes of one
// width; superd ctl finds the project from its directory and below; Ctrl-C ends all and leaves the
// terminal as it was.
func TestUp(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, shop)
	d.Write("shop/.env", "GREETING='hello there'\n")
	terminal, cmd := d.up("--scale", "css=2", "--only", "web,css")
	for _, line := range []string{`web    \| web on 5000 as web\.1 says hello there`, `css@1  \| css on 5200`, `css@2  \| css on 5201`} {
		re := regexp.MustCompile(`(?m)^(\x1b\[\d+m)?` + strings.ReplaceAll(line, `\|`, `\|(\x1b\[0m)?`) + "\r?$")
		harness.Until(t, "the screen has "+line, func() bool { return re.MatchString(terminal.Screen.String()) })
	}
	if got := d.in("status", "worker", "web"); got.Exit != 3 || !strings.Contains(got.Out, "stopped") {
		t.Errorf("superd status: %+v", got)
	}
	d.Mkdir("shop/app")
	d.dir = d.Path("shop/app")
	d.must("ready", "web")
	d.dir = d.Path("shop")
	if r := d.in("up"); r.Exit != 1 || !strings.Contains(r.ErrOut, "runs already") {
		t.Errorf("a second superd up: %+v", r)
	}
	all := d.projects()
	if len(all) != 1 || all[0].State != "running" || all[0].Directory != d.dir || len(all[0].Programs) != 4 ||
		all[0].Pid != d.Parent(supervisorIn(t, all[0].Runtime)) {
		t.Errorf("superd ls: %+v", all)
	}
	if table := d.must("ls"); !strings.Contains(table, "shop") || !strings.Contains(table, "running: css@1, css@2, web; stopped: worker") {
		t.Errorf("superd ls: %s", table)
	}
	terminal.Type("\x03")
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 0 || !terminal.Echoes() {
		t.Errorf("exit status %d, the terminal echoes: %v", status, terminal.Echoes())
	}
	terminal.Screen.Wait(t, "css ends")
	d.waitLeft()
	if r := d.in("down"); r.Exit != 4 || !strings.Contains(r.ErrOut, "no project of this directory runs") {
		t.Errorf("superd down without a project: %+v", r)
	}
	if got := d.must("ls"); got != "no project runs: `superd up` runs one\n" {
		t.Errorf("superd ls: %q", got)
	}
}

// supervisorIn returns the pid of the superd of a runtime directory.
func supervisorIn(t testing.TB, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "superd.lock"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestUpEndsWithTerminal: however the terminal, its shell or the process in it ends, nothing is
// left.
func TestUpEndsWithTerminal(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*developer, *harness.Terminal, *exec.Cmd){
		"hangup":                   func(_ *developer, terminal *harness.Terminal, _ *exec.Cmd) { terminal.Hangup() },
		"kill of what was started": func(_ *developer, _ *harness.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Kill() },
		"SIGTERM":                  func(_ *developer, _ *harness.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) },
		"kill of keeper, then hangup": func(d *developer, terminal *harness.Terminal, _ *exec.Cmd) {
			supervisor := supervisorIn(d.T, d.projects()[0].Runtime)
			keeper := d.Parent(supervisor)
			d.Kill(keeper, syscall.SIGKILL)
			harness.Until(d.T, "the supervisor is the keeper", func() bool { return len(d.Site.Children(supervisor)) > 0 })
			terminal.Hangup()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeveloper(t, shop)
			terminal, cmd := d.up()
			terminal.Screen.Wait(t, "css on 5200")
			end(d, terminal, cmd)
			_ = cmd.Wait()
			d.waitLeft()
		})
	}
	// A job in the background gets no SIGHUP if its shell has been killed.
	t.Run("job in background", func(t *testing.T) {
		t.Parallel()
		d := newDeveloper(t, shop)
		terminal := harness.NewTerminal(t, 80, 24)
		cmd := exec.Command("bash", "-c", "set -m; superd up & sleep 1000")
		terminal.Run(cmd)
		cmd.Dir, cmd.Env = d.dir, d.Env
		d.start(cmd)
		terminal.Screen.Wait(t, "css on 5200")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		terminal.Hangup()
		d.waitLeft()
	})
	// Without a terminal the process that was started stands for it.
	t.Run("no terminal", func(t *testing.T) {
		t.Parallel()
		d := newDeveloper(t, shop)
		var screen harness.Output
		cmd := d.Command("up")
		cmd.Dir, cmd.Stdout = d.dir, &screen
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		d.start(cmd)
		screen.Wait(t, "css    | css on 5200\n")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d.waitLeft()
	})
}

// TestSecondCtrlC: another Ctrl-C kills programs that do not end.
func TestSecondCtrlC(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "")
	d.Write("shop/superd.toml", "[program.deaf]\ncommand = \"child deaf\"\nstop_timeout = \"1h\"\n")
	terminal, cmd := d.up()
	terminal.Screen.Wait(t, "program started")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	harness.Until(t, "superd up ends", func() bool {
		terminal.Type("\x03")
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	d.waitLeft()
}

// TestUpAtOnce: of several superd up for one project one starts it.
func TestUpAtOnce(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: exec sleep 1000\n")
	t.Cleanup(func() { d.in("down", "--all") })
	var commands []*exec.Cmd
	for range 5 {
		cmd := d.Command("up", "-d")
		cmd.Dir = d.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, cmd)
	}
	for _, cmd := range commands {
		_ = cmd.Wait() // it starts the project, changes nothing, or says that another one does
	}
	d.must("wait", "web")
	supervisor := supervisorIn(t, d.projects()[0].Runtime)
	for _, p := range d.Processes() {
		if strings.HasPrefix(p.Command, "superd: supervisor") && p.Pid != supervisor {
			t.Errorf("a second superd runs: %v", p)
		}
	}
	d.must("down")
	d.waitLeft()
}

// TestUpDetached: several projects run in the background beside each other; up applies changes;
// down ends one, also if its superd was killed.
func TestUpDetached(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: exec sleep 1000\njob: exec sleep 1000\n")
	d.Write("shop/Procfile.other", "only: exec sleep 1000\n")
	if r := d.in("up", "-d", "web"); r.Exit != 0 || !strings.Contains(r.Out, "runs in the background") {
		t.Fatalf("superd up -d: %+v", r)
	}
	t.Cleanup(func() { d.in("down", "--all") })
	d.must("wait", "web")
	d.must("up", "-d", "-f", "Procfile.other")
	if r := d.in("status"); r.Exit != 2 || !strings.Contains(r.ErrOut, "several projects that run: name the file of one: Procfile, Procfile.other") {
		t.Errorf("superd status with two projects: %+v", r)
	}
	d.must("ctl", "-c", "Procfile.other", "wait", "only")
	d.must("down", "-f", "Procfile.other")
	d.must("ready", "web")

	d.Write("shop/Procfile", "web: exec sleep 2000\nmore: exec sleep 1000\n")
	if out := d.must("up", "-d"); !strings.Contains(out, "restart needed") || !strings.Contains(out, "added") {
		t.Errorf("superd up -d of a changed file: %s", out)
	}
	d.must("wait", "more", "web")

	all := d.projects()
	if len(all) != 1 || all[0].Name != "shop" {
		t.Fatalf("superd ls: %+v", all)
	}
	supervisor := supervisorIn(t, all[0].Runtime)
	keeper := d.Track(d.Parent(supervisor))
	d.Kill(supervisor, syscall.SIGSTOP)
	keeper.Kill()
	d.Kill(supervisor, syscall.SIGKILL)
	harness.Until(t, "superd is gone", func() bool { return d.projects()[0].State == "killed" })
	d.must("down")
	d.waitLeft()
	if r := d.in("up", "-d", "wbe"); r.Exit != 2 || !strings.Contains(r.ErrOut, `no program or group is named "wbe": did you mean "web"?`) {
		t.Errorf("an unknown name: %+v", r)
	}
}

// TestExitWith: the end of a program ends all with its status.
func TestExitWith(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: exec sleep 1000\ntest: sh -c 'exit 7'\n")
	if r := d.in("up", "--exit-with", "test"); r.Exit != 7 {
		t.Errorf("superd up --exit-with: %+v", r)
	}
	d.waitLeft()
	d.Mkdir("shop/app")
	d.Write("shop/bad.env", "PORT=abc\n")
	for args, want := range map[string]string{
		"up --exit-with tset":     `read --exit-with: no program or group is named "tset": did you mean "test"?`,
		"up web --exit-with test": "test is not started",
		"up --scale web=-1":       "want a number from 0 to",
		"up -f missing":           "no such file",
		"up -f app":               "has no superd.toml, Procfile",
		"up -e missing":           "missing: no such file",
		"up -p 70000":             "is above the last port",
		"up -p 0":                 "read --port: want a number from 1 to 65535, got 0",
		"up -e bad.env":           `bad.env: want a number from 1 to 65535, got "abc"`,
		"up -m web":               `read --scale: want NAME=NUMBER, such as web=3, got "web"`,
		"up --watch wbe":          `read --watch: no program or group is named "wbe"`,
		"down shop":               "down takes no name",
		"down --all -f Procfile":  "leave out --file",
	} {
		if r := d.in(strings.Fields(args)...); r.Exit != 2 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("superd %s: exit status %d, %s, want 2 and %q", args, r.Exit, r.ErrOut, want)
		}
	}
}

// TestUpOfTOML: a superd.toml keeps its own PORT and env files, and its other keys.
func TestUpOfTOML(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: exit 1\n")
	d.Write("shop/.env", "A=env\nB=env\n")
	d.Write("shop/b.env", "B=own\n")
	d.Write("shop/superd.toml", `
		[superd]
		runtime_dir = "elsewhere"
		[defaults]
		command = ["sh", "-c", "echo $SUPERD_NAME $PORT $A $B; exec sleep 1000"]
		log = { format = "text" }
		[program.web]
		env_file = "b.env"
		[program.api]
		environment = { PORT = "80" }
		[program.off]
		autostart = false
		`)
	terminal, cmd := d.up("-p", "6000")
	for _, line := range []string{"web 6000 env own", "api 80 env env"} {
		terminal.Screen.Wait(t, line)
	}
	if got := d.must("logs", "--times=false", "web"); got != "web 6000 env own\n" {
		t.Errorf("superd logs: %q", got)
	}
	if got := d.must("__complete", "up", "--only", ""); got != "api\noff\nweb\n:4\n" {
		t.Errorf("completion: %q", got)
	}
	d.must("start", "off")
	terminal.Screen.Wait(t, "off 6200 env env")
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	d.waitLeft()
	d.Write("shop/superd.toml", "[program.web]\ncomand = 'x'\n")
	if r := d.in("up"); r.Exit != 2 || !strings.Contains(r.ErrOut, "shop/superd.toml:2:1: program.web.comand: unknown key") {
		t.Errorf("a mistake: %+v", r)
	}
}

// TestPortInUse: superd names who has the port of a program; --kill-port ends it.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: exec child listen $PORT\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	squatter := exec.Command("child", "listen", strconv.Itoa(port))
	squatter.Env = d.Env
	listener.Close()
	if err := squatter.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- squatter.Wait() }()
	t.Cleanup(func() { _ = squatter.Process.Kill() })
	harness.Until(t, "the port is in use", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	text := fmt.Sprintf("port %d, PORT of web, is in use by pid %d (child listen %[1]d)", port, squatter.Process.Pid)
	r := d.in("up", "-d", "-p", strconv.Itoa(port))
	t.Cleanup(func() { d.in("down") })
	if r.Exit != 0 || !strings.Contains(r.ErrOut, text+"; --kill-port asks whether to end it") {
		t.Errorf("superd up: %+v, want %q", r, text)
	}
	harness.Until(t, "why names the process", func() bool {
		return strings.Contains(d.must("why", "web"), fmt.Sprintf("Port %d, its PORT, is in use by process %d (child listen %[1]d)", port, squatter.Process.Pid))
	})
	logs, err := filepath.Glob(d.Path(".local/state/superd/projects/*/superd.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	harness.Until(t, "the log names it", func() bool {
		log, err := os.ReadFile(logs[0])
		return err == nil && strings.Contains(string(log), "the port of a program is in use")
	})
	d.must("down")
	if r := d.in("up", "-d", "-p", strconv.Itoa(port), "--kill-port"); r.Exit != 1 || !strings.Contains(r.ErrOut, "can't ask without a terminal") {
		t.Errorf("superd up --kill-port: %+v", r)
	}
	terminal := harness.NewTerminal(t, 200, 24)
	cmd := terminal.Command(d.Site, "up", "-d", "-p", strconv.Itoa(port), "--kill-port")
	cmd.Dir = d.dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Screen.Wait(t, text+". End it? [y/N]")
	terminal.Type("y\r")
	if err := cmd.Wait(); err != nil {
		t.Errorf("superd up --kill-port: %v\n%s", err, terminal.Screen)
	}
	<-ended
	d.must("wait", "web")
	d.must("down")
	d.waitLeft()
}

// TestFirstFile: init writes a configuration that superd accepts, and replaces nothing.
func TestFirstFile(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, "web: bin/web\n")
	d.Write("shop/package.json", `{"scripts": {"dev": "vite", "test": "jest", "build:css": "tailwind --watch"}}`)
	d.Write("shop/manage.py", "import django\n")
	d.Write("shop/go.mod", "module shop\n")
	d.Mkdir("shop/cmd")
	d.Mkdir("shop/cmd/api")
	d.Write("shop/cmd/api/main.go", "package main\n")
	if out := d.must("init"); !strings.Contains(out, "1 program: web") {
		t.Errorf("superd init: %s", out)
	}
	if got := d.Read("shop/superd.toml"); !strings.HasPrefix(got, "#:schema ./superd.schema.json\n") || !strings.Contains(got, `command     = "bin/web"`) {
		t.Errorf("superd.toml:\n%s", got)
	}
	d.must("check")
	if r := d.in("init"); r.Exit != 1 || !strings.Contains(r.ErrOut, "superd.toml: it is there already") {
		t.Errorf("a second superd init: %+v", r)
	}
	d.Move("shop/superd.toml", "shop/old.toml")

	// A user decides
	terminal := harness.NewTerminal(t, 150, 40)
	cmd := terminal.Command(d.Site, "init")
	cmd.Dir = d.dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ question, answer string }{
		{"Take all programs of Procfile? [Y/n]", "n"},
		{"Take web, npm run dev (package.json: the script dev: vite)? [Y/n]", ""},
		{"Take build-css, npm run build:css (package.json: the script build:css: tailwind --watch)? [Y/n]", "maybe\r"},
		{"Take web-2, python3 manage.py runserver ${PORT:-8000} (manage.py: a Django application)? [Y/n]", ""},
		{"Take api, go run ./cmd/api (go.mod: the command cmd/api)? [Y/n]", "no"},
	} {
		terminal.Screen.Wait(t, step.question)
		terminal.Type(step.answer + "\r")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("superd init: %v\n%s", err, terminal.Screen)
	}
	got := d.Read("shop/superd.toml")
	for _, want := range []string{`command = "npm run dev"`, "[program.build-css]", "[program.web-2]", `"python3 manage.py runserver ${PORT:-8000}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("superd.toml lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "api") {
		t.Errorf("superd.toml has what was refused:\n%s", got)
	}
	d.must("check")
}

// TestDevelop: a day with a project like one of Rails, in tmux: a server, a worker that stops at a
// breakpoint, and a watcher of styles. Its terminal shows a restart, another one types into the
// debugger, and Ctrl-C leaves nothing but the terminal as it was.
func TestDevelop(t *testing.T) {
	t.Parallel()
	d := newDeveloper(t, `web: exec python3 -u web.py
worker: python3 -u worker.py
css: while :; do test -e app.scss && cat app.scss && rm app.scss; sleep 0.05; done
`)
	d.Write("shop/web.py", `
import os, signal
print("\033[32mweb serves\033[0m on", os.environ["PORT"])
signal.pause()
`)
	d.Write("shop/worker.py", `
import os, time
order = {"id": 41}
breakpoint()
print("worker continues with", order["id"])
while True: time.sleep(1000)
`)
	up := openPane(t, d.Site, 100, 30, "trap : INT; (cd shop && exec superd up --pty worker)")
	up.wait(`(?m)^web    \| web serves on 5000`, `(?m)^worker \| .*worker.py\(5\)<module>`, "INF program started instance=css")
	colours := up.must("capture-pane", "-p", "-e")
	if !strings.Contains(colours, "web serves") || !regexp.MustCompile(`\x1b\[(\d+;)*32mweb serves`).MatchString(colours) {
		t.Errorf("no colour of web: %q", colours)
	}
	d.Write("shop/app.scss", "styles are compiled\n")
	up.wait(`(?m)^css    \| styles are compiled`)

	d.must("signal", "KILL", "web")
	up.wait(`program exited instance=web .*killed by SIGKILL`, `(?m)^web    \| web serves on 5000(.*\n)+web    \| web serves on 5000`)

	debugger := openPane(t, d.Site, 80, 24, "(cd shop && exec superd attach worker)")
	debugger.wait("attached to worker; ctrl-p ctrl-q detaches")
	debugger.press("Enter")
	debugger.wait(`\(Pdb\)`)
	debugger.enter("order['id'] += 1")
	debugger.press("Enter")
	debugger.enter("p order")
	debugger.press("Enter")
	debugger.wait(`(?m)^\{'id': 42\}`)
	debugger.enter("continue")
	debugger.press("Enter")
	debugger.wait(`(?m)^worker continues with 42`)
	up.wait(`(?m)^worker \| worker continues with 42`)
	debugger.press("C-p", "C-q")
	debugger.wait("detached from worker; it goes on")
	debugger.wantEnded(0)

	up.press("C-c")
	up.wait("shut down because=SIGINT")
	up.wantEnded(0)
	harness.Until(t, "nothing of the project is left", func() bool {
		return !slices.ContainsFunc(d.Processes(), func(p harness.Process) bool {
			return strings.HasPrefix(p.Command, "superd") || slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "SUPERD_") })
		})
	})
}
