package tests

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// ask sends text to a server of the child's mode serve, and returns its answer.
func ask(network, address, text string) (string, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(harness.Deadline)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err == nil && !strings.HasSuffix(string(answer), text+"\n") {
		err = fmt.Errorf("the answer is %q", answer)
	}
	return string(answer), err
}

// A socketLoad asks a server without pause.
type socketLoad struct {
	asked atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex
	failed []error
}

func loadSocket(network, address string) *socketLoad {
	l := &socketLoad{stop: make(chan struct{})}
	for range 4 {
		l.done.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				_, err := ask(network, address, fmt.Sprint(l.asked.Add(1)))
				if err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, err)
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

// more waits until so many more questions were asked.
func (l *socketLoad) more(t *testing.T) {
	t.Helper()
	until := l.asked.Load() + 100
	harness.Until(t, "100 more questions are asked", func() bool { return l.asked.Load() >= until })
}

// end ends the load, and fails the test if a question was not answered.
func (l *socketLoad) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	t.Logf("%d questions", l.asked.Load())
	if len(l.failed) > 0 {
		t.Errorf("%d of %d questions failed, the first: %v", len(l.failed), l.asked.Load(), l.failed[0])
	}
}

// freeAddress returns an address of TCP that was free just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestHeldSocketLosesNothing: each connection is answered while the only server is restarted,
// superd is killed and replaced by another binary, and a reload changes what can be changed in
// place.
func TestHeldSocketLosesNothing(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"tcp": "", "unix": "user = 'nobody'\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := freeAddress(t)
			s := harness.NewSite(t, "")
			listen := address
			if name == "unix" {
				address = s.Path("web.sock")
				listen = "unix:" + address
			}
			configure := func(more string) {
				s.Configure(fmt.Sprintf("[socket.http]\nlisten = %q\n%s\n[program.web]\ncommand = ['child', 'serve', '0']\nsockets = ['http']\n", listen, more))
			}
			if os.Geteuid() != 0 {
				config = ""
			}
			configure(config)
			d := s.Start()
			s.WaitState("web", "running")
			load := loadSocket(name, address)
			for range 3 {
				load.more(t)
				s.MustCtl("restart", "web")
			}
			for range 3 {
				load.more(t)
				s.Kill(d.Pid, syscall.SIGKILL)
				d.FindSupervisor()
				s.MustCtl("restart", "web")
			}
			load.more(t)
			configure("backlog = 100\n" + config)
			s.MustCtl("reload")
			load.more(t)
			s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
			s.MustCtl("restart", "web")
			load.more(t)
			load.end(t)
		})
	}
}

// TestRemovedPathIsBack: a program removes the path of its socket at its end, as php-fpm does. The
// next one is connected to by it. When superd ends, nothing is left.
func TestRemovedPathIsBack(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[socket.http]
		listen = "unix:DIR/sockets/s"
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		[program.other]
		command = ["sh", "-c", "trap 'rm DIR/sockets/s; exit 0' TERM; while :; do sleep 0.05; done"]
		sockets = ["http"]
		`)
	s.Mkdir("sockets")
	d := s.Start()
	s.WaitRunning()
	for i := range 2 {
		s.MustCtl("restart", "other")
		d.ErrOut.WaitTimes(t, "a program has removed the path of a socket; superd has made it again", i+1)
		if _, err := ask("unix", s.Path("sockets/s"), "hello"); err != nil {
			t.Error(err)
		}
		s.Kill(d.Pid, syscall.SIGKILL)
		d.FindSupervisor()
	}
	s.MustCtl("shutdown")
	d.Wait()
	if left, err := os.ReadDir(s.Path("sockets")); len(left) > 0 || err != nil {
		t.Errorf("superd has left %v, %v", left, err)
	}
}

// TestSocketInUse: a program waits for a socket that another process has, is told which, and starts
// when that has ended.
func TestSocketInUse(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	other, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.http]
		listen = [%q, "unix:DIR/s"]
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		[program.other]
		command = "sleep infinity"
		`, address))
	s.Start()
	s.WaitState("other", "running")
	by := fmt.Sprintf("address in use by process %d (", os.Getpid())
	s.WaitStatus("web", "waits for its socket", func(st harness.Status) bool {
		return st.State == "waiting" && strings.Contains(st.Reason, "waits for the socket http, whose address "+address+" can't be opened: "+by)
	})
	if r := s.Ctl("start", "web"); r.Exit == 0 || !strings.Contains(r.ErrOut, by) {
		t.Errorf("start: exit status %d, %q, want the process that has the address", r.Exit, r.ErrOut)
	}
	for _, args := range [][]string{{"why", "web"}, {"sockets"}, {"events"}} {
		if r := s.MustCtl(args...); !strings.Contains(r.Out, by) {
			t.Errorf("ctl %s: %q, want the process that has the address", args, r.Out)
		}
	}
	other.Close()
	pid := s.WaitState("web", "running").Pid
	harness.Until(t, "the holder of the sockets is shown", func() bool {
		return strings.Count(s.MustCtl("sockets").Out, fmt.Sprintf("%d child", pid)) == 2
	})
	if _, err := ask("tcp", address, "hello"); err != nil {
		t.Error(err)
	}
}

// TestReloadOfSockets: a reload opens and closes what differs, also an address that excludes one of
// before, and the others keep what waits in them.
func TestReloadOfSockets(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	first, kept := freeAddress(t), freeAddress(t)
	_, port, _ := net.SplitHostPort(first)
	// It answers at descriptor 3, so the first one
	configure := func(first, more string) {
		s.Configure(fmt.Sprintf(`
			[socket.http]
			listen = %q
			[socket.kept]
			listen = %q
			%s
			[program.web]
			command = ["child", "serve", "0"]
			sockets = ["http"]
			[program.idle]
			command = ["sleep", "infinity"]
			sockets = ["kept"]
			`, first, kept, more))
	}
	configure(first, "")
	s.Start()
	web, idle := s.WaitState("web", "running").Pid, s.WaitState("idle", "running").Pid
	waits, err := net.Dial("tcp", kept)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()

	configure("0.0.0.0:"+port, "backlog = 7\n[socket.more]\nlisten = 'unix:DIR/more'\n")
	r := s.MustCtl("reload", "--dry-run")
	for _, want := range []string{"opens 0.0.0.0:" + port + "; closes " + first, "opens unix:" + s.Path("more"), "backlog"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("reload --dry-run: %s, want %q", r.Out, want)
		}
	}
	s.MustCtl("reload")
	s.WaitStatus("web", "has another process", func(st harness.Status) bool { return st.State == "running" && st.Pid != web })
	if _, err := ask("tcp", first, "hello"); err != nil {
		t.Error(err)
	}
	harness.Until(t, "the kept socket has its new backlog and what waited", func() bool {
		return strings.Contains(s.MustCtl("sockets").Out, "1 of 7")
	})
	if st := s.Status("idle"); st.Pid != idle {
		t.Errorf("%v, want pid %d", st, idle)
	}
	if _, err := os.Stat(s.Path("more")); err != nil {
		t.Error(err)
	}

	configure("0.0.0.0:"+port, "")
	s.MustCtl("reload")
	harness.Until(t, "the path of the removed socket is gone", func() bool {
		_, err := os.Stat(s.Path("more"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestSocketPassing: a program finds its sockets by number or as standard input.
func TestSocketPassing(t *testing.T) {
	t.Parallel()
	byNumber, byInput := freeAddress(t), freeAddress(t)
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.first]
		listen = "unix:DIR/first"
		[socket.by-number]
		listen = %q
		[socket.input]
		listen = %q
		[program.number]
		command = ["child", "serve", "${SOCKET_FD_by_number}"]
		sockets = ["first", "by-number"]
		socket_pass = "fd"
		pre_start = [["sh", "-c", "test ! -e /proc/self/fd/4"]]
		[program.input]
		command = ["child", "serve-input"]
		sockets = ["input"]
		socket_pass = "stdin"
		`, byNumber, byInput))
	s.Start()
	for name, address := range map[string]string{"number": byNumber, "input": byInput} {
		pid := s.WaitState(name, "running").Pid
		if answer, err := ask("tcp", address, "hello"); err != nil || answer != fmt.Sprintf("%d hello\n", pid) {
			t.Errorf("%s answers %q, %v, want pid %d", name, answer, err, pid)
		}
	}
}

// TestSocketsOfSystemd: superd takes what a socket unit passes by name and address, also several of
// one name, and gives it to programs. It leaves the mode as it is. A successor has it, too.
func TestSocketsOfSystemd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	addresses := make([]string, 3)
	var files []*os.File
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		l.Close()
		files = append(files, file)
		defer file.Close()
	}
	path := s.Path("given.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	defer l.Close()
	const config = `
		[socket.http]
		listen = [%q, %q, %q]
		fdname = "web"
		mode = %q
		[program.first]
		command = ["child", "serve", "3"]
		sockets = ["http"]
		[program.second]
		command = ["child", "serve", "4"]
		sockets = ["http"]
		`
	configure := func(mode string) {
		s.Configure(fmt.Sprintf(config, addresses[0], addresses[1], "unix:"+path, mode))
	}
	configure("0666")
	files = append(files, given)
	d := s.Start(harness.Under("export LISTEN_PID=$$ LISTEN_FDS=4 LISTEN_FDNAMES=web:web:other:web; exec \"$@\""), func(cmd *exec.Cmd) {
		cmd.ExtraFiles = files
	})
	s.WaitRunning()
	check := func() {
		t.Helper()
		for _, address := range addresses[:2] {
			if _, err := ask("tcp", address, "hello"); err != nil {
				t.Error(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("the path has mode %o, want that of the socket unit, 600", mode)
		}
	}
	check()
	if text := d.ErrOut.String(); strings.Count(text, "socket taken from systemd") != 3 {
		t.Errorf("superd did not take three sockets:\n%s", text)
	}
	if text, want := d.ErrOut.String(), "name=other address="+addresses[2]; strings.Count(text, "systemd has passed a socket that") != 1 || !strings.Contains(text, want) {
		t.Errorf("superd warns of no socket that is left over, with %q:\n%s", want, text)
	}
	configure("0660")
	s.MustCtl("reload")
	check()
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	s.MustCtl("restart", "first", "second")
	check()
	if text := d.ErrOut.String(); strings.Contains(text, "socket opened") {
		t.Errorf("a successor has opened a socket:\n%s", text)
	}
}

// TestGivenSocketOfNewConfiguration: a successor takes a socket of systemd that only its own
// configuration has, and not that of the superd before.
func TestGivenSocketOfNewConfiguration(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := harness.NewSite(t, `
		[program.plain]
		command = "sleep infinity"
		`)
	d := s.Start(harness.NoKeeper)
	s.WaitRunning()
	s.Kill(d.Pid, syscall.SIGKILL)
	s.Configure(fmt.Sprintf(`
		[socket.http]
		listen = %q
		[program.web]
		command = ["child", "serve", "3"]
		sockets = ["http"]
		`, l.Addr()))
	d = s.Start(harness.NoKeeper, harness.Under("export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http; exec \"$@\""),
		func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{file} })
	s.WaitState("web", "running")
	if text := d.ErrOut.String(); !strings.Contains(text, "socket taken from systemd") || strings.Contains(text, "does not have") {
		t.Errorf("the socket is not taken:\n%s", text)
	}
	if _, err := ask("tcp", l.Addr().String(), "hello"); err != nil {
		t.Error(err)
	}
}

// TestStartOnConnect: the first connection starts a program, also after a kill of superd, and again
// when it has ended. What the operator stops stays down until the operator starts it.
func TestStartOnConnect(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.http]
		listen = [%q, "unix:DIR/s"]
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		start = "on-connect"
		[program.quits]
		command = "true"
		essential = true
		sockets = ["quits"]
		start = "on-connect"
		[socket.quits]
		listen = "unix:DIR/quits"
		`, address))
	d := s.Start()
	harness.Until(t, "the sockets are open", func() bool { return strings.Count(s.MustCtl("sockets").Out, " open ") == 3 })
	want := func() {
		t.Helper()
		answer, err := ask("tcp", address, "hello")
		if st := s.WaitState("web", "running"); err != nil || answer != fmt.Sprintf("%d hello\n", st.Pid) || st.Reason != "started by a connection" {
			t.Errorf("answer %q, %v; %v", answer, err, st)
		}
	}
	if st := s.WaitState("web", "stopped"); st.Reason != "waits for a connection to http" {
		t.Errorf("%v, want it to wait for a connection", st)
	}
	want()
	s.Kill(s.Status("web").Pid, syscall.SIGTERM)
	if st := s.WaitState("web", "exited"); !strings.HasPrefix(st.Reason, "waits for a connection to http; before: exit status 0") {
		t.Errorf("%v, want it to wait for a connection", st)
	}
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	want()
	s.MustCtl("stop", "web")
	waits, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()

	// A program that ends without accepting is started once a second
	quits, err := net.Dial("unix", s.Path("quits"))
	if err != nil {
		t.Fatal(err)
	}
	defer quits.Close()
	harness.Until(t, "it is started three times", func() bool {
		return strings.Count(s.MustCtl("events", "quits").Out, "started by a connection") >= 3
	})
	if n := strings.Count(d.ErrOut.String(), "program started\" instance=quits"); n > 6 {
		t.Errorf("it was started %d times", n)
	}
	if st := s.Status("web"); st.State != "stopped" {
		t.Errorf("%v, want it stopped", st)
	}
	s.MustCtl("start", "web")
	s.WaitState("web", "running")
}

// TestReasonsOnConnect: status and why say what a program that connections start waits for. One
// replica that the operator has stopped does not keep the others down.
func TestReasonsOnConnect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.http]
		listen = "unix:DIR/s"
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		start = "on-connect"
		replicas = 2
		[socket.busy]
		listen = %q
		[program.busy]
		command = ["child", "serve", "0"]
		sockets = ["busy"]
		start = "on-connect"
		`, l.Addr()))
	s.Start()
	harness.Until(t, "the reasons are known", func() bool {
		return s.Status("web@1").Reason == "waits for a connection to http" &&
			strings.HasPrefix(s.Status("busy").Reason, fmt.Sprintf("waits for the socket busy, whose address %s can't be opened: address in use by process %d", l.Addr(), os.Getpid()))
	})
	for name, want := range map[string]string{"web@1": "The next connection starts it.", "busy": "A connection starts it when its sockets are open."} {
		if text := s.MustCtl("why", name).Out; !strings.Contains(text, want) || strings.Contains(text, "not wanted up") {
			t.Errorf("why %s:\n%s\nwant %q", name, text, want)
		}
	}
	s.MustCtl("stop", "web@2")
	if _, err := ask("unix", s.Path("s"), "hello"); err != nil {
		t.Error(err)
	}
	s.WaitState("web@1", "running")
	if st := s.Status("web@2"); st.State != "stopped" || st.Reason != "stopped by the operator" {
		t.Errorf("%v, want it stopped by the operator", st)
	}
}

// TestIdleTimeout: a program without a connection is stopped, one with an open connection is not,
// nor is one that a running program requires. The next connection starts it again.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.http]
		listen = [%q, "unix:DIR/s"]
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		start = "on-connect"
		idle_timeout = "300ms"
		[socket.api]
		listen = "unix:DIR/api"
		[program.api]
		command = ["child", "serve", "0"]
		sockets = ["api"]
		start = "on-connect"
		idle_timeout = "300ms"
		[program.front]
		command = "sleep infinity"
		requires = ["api"]
		`, address))
	s.Start()
	harness.Until(t, "the sockets are open", func() bool { return strings.Count(s.MustCtl("sockets").Out, " open ") == 3 })
	s.WaitState("front", "running")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := s.WaitState("web", "running").Pid
	harness.Window(t, time.Second)
	if st := s.Status("web"); st.Pid != pid {
		t.Errorf("%v with an open connection, want pid %d", st, pid)
	}
	if text := s.MustCtl("events", "api").Out; strings.Contains(text, "idle_timeout") {
		t.Errorf("api is required by a program that runs, and its events are\n%s", text)
	}
	s.MustCtl("stop", "front")
	s.WaitState("api", "stopped")
	c.Close()
	st := s.WaitState("web", "stopped")
	if want := "waits for a connection to http; before: stopped by idle_timeout"; !strings.Contains(st.Reason, want) {
		t.Errorf("%v, want %q", st, want)
	}
	if _, err := ask("tcp", address, "hello"); err != nil {
		t.Error(err)
	}
	s.WaitState("web", "stopped")
}

// TestRollOnConnect: a program that a connection has started is rolled without a failed connection,
// is not stopped as idle meanwhile, and connections start it after its replicas have changed.
func TestRollOnConnect(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := harness.NewSite(t, fmt.Sprintf(`
		[socket.http]
		listen = %q
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		start = "on-connect"
		idle_timeout = "300ms"
		replicas = 2
		rolling = { surge = 1 }
		`, address))
	s.Start()
	harness.Until(t, "the socket is open", func() bool { return strings.Contains(s.MustCtl("sockets").Out, " open ") })
	// A roll of what is stopped starts it; then it is idle
	load := loadSocket("tcp", address)
	s.WaitState("web@2", "running")
	before := s.WaitState("web@1", "running").Pid
	for range 2 {
		load.more(t)
		s.MustCtl("restart", "--rolling", "web")
	}
	load.more(t)
	load.end(t)
	if pid := s.Status("web@1").Pid; pid == before {
		t.Errorf("web@1 still runs as %d", pid)
	}
	s.WaitState("web@1", "stopped")
	if r := s.MustCtl("restart", "--rolling", "--canary", "1", "web"); !strings.Contains(r.Out, "web@3") {
		t.Errorf("canary: %s", r.Out)
	}
	harness.Window(t, time.Second) // longer than idle_timeout
	if st := s.Status("web@3"); st.State != "running" {
		t.Errorf("%v, want that it waits for the operator", st)
	}
	s.MustCtl("continue", "web")
	s.WaitState("web@1", "stopped")
	s.WaitState("web@2", "stopped")
	for _, n := range []string{"1", "3"} {
		s.MustCtl("scale", "web="+n)
		if _, err := ask("tcp", address, "hello"); err != nil {
			t.Errorf("with %s: %v", n, err)
		}
		s.WaitState("web@"+n, "stopped")
	}
}
