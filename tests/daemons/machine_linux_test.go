package daemons

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// A machine is a site whose superd has /etc, /var, /run, /dev and a network of its own. So a daemon
// runs from its file in examples/services as it stands there, with the paths and ports of its
// package, and nothing outside the site changes.
type machine struct {
	*site
	name     string // of the program and of its example
	examples string // the folder with it
	holder   int    // a process that keeps the namespaces
	daemon   *harness.Superd

	substitutions []string // in the example: pairs of old and new
}

// newMachine makes a machine for the daemon of the example of this name.
func newMachine(t *testing.T, name string, packages ...string) *machine {
	m := &machine{site: newSite(t, packages...), name: name, examples: "services"}
	m.Mkdir("machine")
	m.holder = harness.Booted(t, m.Path("machine"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, m.Log(name))
		}
	})
	return m
}

// path returns where a path of the machine is to be found outside.
func (m *machine) path(name string) string { return fmt.Sprintf("/proc/%d/root%s", m.holder, name) }

// write writes a file of the machine. An existing one keeps its owner and mode.
func (m *machine) write(name, text string) {
	m.T.Helper()
	if err := os.WriteFile(m.path(name), []byte(text), 0o644); err != nil {
		m.T.Fatal(err)
	}
}

// read returns the content of a file of the machine; "" if there is none.
func (m *machine) read(name string) string {
	m.T.Helper()
	b, err := os.ReadFile(m.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.T.Fatal(err)
	}
	return string(b)
}

func (m *machine) inside(command ...string) []string {
	return append([]string{"nsenter", "--mount", "--net", "--target", strconv.Itoa(m.holder), "--"}, command...)
}

// command returns a command that runs in the machine.
func (m *machine) command(command ...string) *exec.Cmd {
	all := m.inside(command...)
	return exec.CommandContext(m.T.Context(), all[0], all[1:]...)
}

// run runs a command in the machine, and returns its output.
func (m *machine) run(command ...string) string {
	m.T.Helper()
	out, err := m.command(command...).CombinedOutput()
	if err != nil {
		m.T.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// substitute replaces a text of the example, for a right that this machine lacks.
func (m *machine) substitute(old, by string) { m.substitutions = append(m.substitutions, old, by) }

// lacks reports whether the test, and so superd, has not a capability.
func (m *machine) lacks(capability int) bool {
	m.T.Helper()
	effective, err := strconv.ParseUint(m.Field(os.Getpid(), "status", "CapEff"), 16, 64)
	if err != nil {
		m.T.Fatal(err)
	}
	return effective>>capability&1 == 0
}

// boot starts superd with the example and with further programs, and waits until all are ready.
func (m *machine) boot(programs ...string) {
	m.T.Helper()
	m.Write("superd.toml", fmt.Sprintf("include = [%q]\n[superd]\nruntime_dir = 'run'\nlog_dir = 'log'\n%s",
		m.example(), strings.Join(programs, "")))
	m.daemon = m.Start(func(cmd *exec.Cmd) {
		path, err := exec.LookPath("nsenter")
		if err != nil {
			m.T.Fatal(err)
		}
		cmd.Path, cmd.Args, cmd.Err = path, m.inside(cmd.Args...), nil
	})
	m.WaitRunning()
}

// example copies the example into the machine, as a user does.
func (m *machine) example() string {
	m.T.Helper()
	b, err := os.ReadFile("../../examples/" + m.examples + "/" + m.name + ".toml")
	if err != nil {
		m.T.Fatal(err)
	}
	text, name := string(b), m.name+".toml"
	for pair := range slices.Chunk(m.substitutions, 2) {
		if !strings.Contains(text, pair[0]) {
			m.T.Errorf("%s has no %q", name, pair[0])
		}
		m.T.Logf("%s: %q becomes %q", name, pair[0], pair[1])
	}
	if len(m.substitutions) == 0 {
		m.T.Logf("%s: nothing is substituted", name)
	}
	if err := os.MkdirAll(m.path("/etc/superd/conf.d"), 0o755); err != nil {
		m.T.Fatal(err)
	}
	m.write("/etc/superd/conf.d/"+name, strings.NewReplacer(m.substitutions...).Replace(text))
	return "/etc/superd/conf.d/" + name
}

// pid returns the main process of the daemon.
func (m *machine) pid() int {
	m.T.Helper()
	return m.Status(m.name).Pid
}

// network makes a socket in the network of the machine.
func network[S any](m *machine, open func() (S, error)) (socket S, err error) {
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked, so that the thread ends with this function
		var ns *os.File
		if ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", m.holder)); err != nil {
			return
		}
		defer ns.Close()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			socket, err = open()
		}
	}()
	<-done
	return socket, err
}

// dial connects to an address of the machine, an IP address with a port.
func (m *machine) dial(protocol, address string) (net.Conn, error) {
	return network(m, func() (net.Conn, error) { return net.DialTimeout(protocol, address, harness.Deadline) })
}

// listen listens on an address of the machine.
func (m *machine) listen(address string) net.Listener {
	m.T.Helper()
	listener, err := network(m, func() (net.Listener, error) { return net.Listen("tcp", address) })
	if err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { listener.Close() })
	return listener
}

// get returns the answer to an HTTP request, on a connection of its own.
func (m *machine) get(url string) (string, error) {
	client := http.Client{Timeout: harness.Deadline, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(_ context.Context, protocol, address string) (net.Conn, error) { return m.dial(protocol, address) },
	}}
	r, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, r.Status)
	}
	return string(body), err
}

// load sends requests from several clients until the function that it returns is called. None may
// fail.
func (m *machine) load(request func() error) (stop func()) {
	var clients sync.WaitGroup
	var ended atomic.Bool
	var served atomic.Int64
	for range 3 {
		clients.Go(func() {
			for !ended.Load() {
				if err := request(); err != nil {
					m.T.Errorf("a request under load: %v", err)
					return
				}
				served.Add(1)
			}
		})
	}
	return func() {
		m.T.Helper()
		// Some that began after what happened meanwhile
		for want := served.Load() + 10; served.Load() < want && !m.T.Failed(); {
			time.Sleep(time.Millisecond)
		}
		ended.Store(true)
		clients.Wait()
		m.T.Logf("%d requests under load", served.Load())
	}
}

// reloads lets the daemon reload a changed configuration under load. It stays the same process.
func (m *machine) reloads(request func() error, change func(), changed func() bool) {
	m.T.Helper()
	pid, stop := m.pid(), m.load(request)
	change()
	m.MustCtl("reload", m.name)
	harness.Until(m.T, "the new configuration is in force", changed)
	stop()
	if now := m.pid(); now != pid {
		m.T.Errorf("after a reload it is process %d, %d before", now, pid)
	}
}

// refuses shows that a mistake in a file of the daemon's configuration prevents a reload and a
// restart. The answer has the words of the daemon.
func (m *machine) refuses(name, text string, words string) {
	m.T.Helper()
	pid, good := m.pid(), m.read(name)
	m.write(name, text)
	for _, verb := range []string{"reload", "restart"} {
		if r := m.Ctl(verb, m.name); r.Exit != 1 || !strings.Contains(r.ErrOut, words) {
			m.T.Errorf("%s with a mistake: exit status %d, %q, want 1 and %q", verb, r.Exit, r.ErrOut, words)
		}
	}
	m.write(name, good)
	if now := m.pid(); now != pid {
		m.T.Errorf("after a refusal it is process %d, %d before", now, pid)
	}
}

// upgrades replaces superd under load. The daemon stays the same process.
func (m *machine) upgrades(request func() error) {
	m.T.Helper()
	pid, stop := m.pid(), m.load(request)
	m.MustCtl("upgrade")
	if st := m.Status(m.name); st.State != "running" || st.Pid != pid || st.Restarts != 0 {
		m.T.Errorf("after an upgrade of superd %v, want it running as process %d", st, pid)
	}
	stop()
}

// stops stops the daemon, which has to end by itself with status 0.
func (m *machine) stops() {
	m.T.Helper()
	m.stop(m.name)
}

// ok makes an error of an answer that is not the one expected.
func ok(got string, err error, want string) error {
	if err == nil && !strings.Contains(got, want) {
		err = fmt.Errorf("the answer is %q, want %q", got, want)
	}
	return err
}
