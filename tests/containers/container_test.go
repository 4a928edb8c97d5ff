// Package containers runs superd as PID 1 of containers that runc makes, as container engines do:
// `make test-containers`, as root. Without -containers nothing runs.
package containers

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/control"
	"superd/tests/harness"
)

var enabled = flag.Bool("containers", false, "run the tests (root, runc, busybox-static)")

func TestMain(m *testing.M) { harness.Main(m) }

// A box is a container with a read-only root, whose only writable directory is a tmpfs at /run. Its
// PID 1 is superd with /etc/superd.toml; /bin has superd, child and busybox.
type box struct {
	t      *testing.T
	id     string
	bundle string
	spec   map[string]any

	cmd    *exec.Cmd
	out    bytes.Buffer // standard output of the container; read it when the container has ended
	errOut bytes.Buffer
	done   chan error
}

// newBox makes the bundle of a container with the programs of the TOML text config. uid owns /run
// and is the user of the container, without an entry in /etc/passwd unless it is 0.
func newBox(t *testing.T, uid int, config string) *box {
	t.Helper()
	if !*enabled {
		t.Skip("needs -containers: make test-containers")
	}
	b := &box{t: t, bundle: t.TempDir(), done: make(chan error, 1)}
	b.id = "superd-test-" + filepath.Base(filepath.Dir(b.bundle)) + "-" + filepath.Base(b.bundle)
	root := filepath.Join(b.bundle, "rootfs")
	for _, dir := range []string{"bin", "etc", "run", "proc", "sys", "dev", "tmp"} {
		b.must(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	self, err := os.Executable()
	b.must(err)
	superd, err := exec.LookPath("superd")
	b.must(err)
	for name, from := range map[string]string{"superd": superd, "child": self, "busybox": "/bin/busybox"} {
		text, err := os.ReadFile(from)
		b.must(err)
		b.must(os.WriteFile(filepath.Join(root, "bin", name), text, 0o755))
	}
	b.must(os.Symlink("busybox", filepath.Join(root, "bin/sh")))
	b.must(os.WriteFile(filepath.Join(root, "etc/superd.toml"), []byte(config), 0o644))
	spec := exec.Command("runc", "spec")
	spec.Dir = b.bundle
	if out, err := spec.CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(b.bundle, "config.json"))
	b.must(err)
	b.must(json.Unmarshal(text, &b.spec))
	process := b.process()
	process["terminal"] = false
	process["args"] = []string{"/bin/superd", "run", "-c", "/etc/superd.toml", "--runtime-dir", "/run/superd"}
	process["user"] = map[string]any{"uid": uid, "gid": uid}
	process["env"] = []string{"PATH=/bin", "TERM=dumb"}
	if uid != 0 {
		b.capabilities()
	}
	b.spec["mounts"] = append(b.spec["mounts"].([]any), map[string]any{
		"destination": "/run", "type": "tmpfs", "source": "tmpfs",
		"options": []string{"nosuid", "nodev", "mode=755", "size=16m", fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", uid)},
	})
	b.limit("pids", map[string]any{"limit": 50})
	b.limit("memory", map[string]any{"limit": 64 << 20})
	return b
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) process() map[string]any { return b.spec["process"].(map[string]any) }

// capabilities gives the container the named capabilities, and no others.
func (b *box) capabilities(names ...string) {
	sets := b.process()["capabilities"].(map[string]any)
	for _, set := range []string{"bounding", "effective", "permitted", "inheritable", "ambient"} {
		sets[set] = append([]string{}, names...)
	}
	if b.process()["user"].(map[string]any)["uid"] == 0 {
		sets["ambient"], sets["inheritable"] = []string{}, []string{} // as engines do it for root
	}
}

func (b *box) limit(controller string, value map[string]any) {
	linux := b.spec["linux"].(map[string]any)
	resources, ok := linux["resources"].(map[string]any)
	if !ok {
		resources = map[string]any{}
	}
	resources[controller] = value
	linux["resources"] = resources
}

// start starts the container and waits until superd answers in it.
func (b *box) start() {
	b.t.Helper()
	text, err := json.Marshal(b.spec)
	b.must(err)
	b.must(os.WriteFile(filepath.Join(b.bundle, "config.json"), text, 0o644))
	b.cmd = exec.Command("runc", "run", "--bundle", b.bundle, b.id)
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.errOut
	b.cmd.WaitDelay = harness.Deadline
	b.must(b.cmd.Start())
	b.t.Cleanup(b.remove)
	go func() { b.done <- b.cmd.Wait() }()
}

// remove removes all of the container.
func (b *box) remove() {
	if out, err := exec.Command("runc", "delete", "--force", b.id).CombinedOutput(); err != nil {
		b.t.Errorf("runc delete: %v\n%s", err, out)
	}
}

// ready waits until superd answers.
func (b *box) ready() {
	b.t.Helper()
	harness.Until(b.t, "superd answers in the container", func() bool {
		select {
		case err := <-b.done:
			b.t.Fatalf("the container has ended: %v\n%s", err, b.log())
		default:
		}
		_, err := b.output("version")
		return err == nil
	})
}

// output runs superd ctl outside of the container, where its limits do not apply, and returns its
// standard output.
func (b *box) output(args ...string) (string, error) {
	init, err := b.init()
	if err != nil {
		return "", err
	}
	dir := fmt.Sprintf("/proc/%d/root/run/superd", init)
	cmd := exec.Command("superd", append([]string{"ctl", "--runtime-dir", dir}, args...)...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("superd ctl %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out), err
}

// ctl is ask, and fails the test when the command does.
func (b *box) ctl(args ...string) string {
	b.t.Helper()
	out, err := b.output(args...)
	b.must(err)
	return out
}

// init returns the pid, outside, of the container's PID 1.
func (b *box) init() (int, error) {
	out, err := exec.Command("runc", "state", b.id).Output()
	if err != nil {
		return 0, err
	}
	var state struct {
		Pid int `json:"pid"`
	}
	err = json.Unmarshal(out, &state)
	return state.Pid, err
}

// kill sends SIGKILL to a process of the container.
func (b *box) kill(pid int) {
	b.t.Helper()
	out, err := exec.Command("runc", "ps", "--format", "json", b.id).Output()
	b.must(err)
	var outside []int
	b.must(json.Unmarshal(out, &outside))
	for _, there := range outside {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", there))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(status), "\nNSpid:\t")
		line, _, _ := strings.Cut(rest, "\n")
		if pids := strings.Fields(line); pids[len(pids)-1] == strconv.Itoa(pid) {
			b.must(syscall.Kill(there, syscall.SIGKILL))
			return
		}
	}
	b.t.Fatalf("the container has no process %d:\n%s", pid, out)
}

// run executes a command of busybox in the container and returns its standard output.
func (b *box) run(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("runc", append([]string{"exec", b.id, "busybox"}, args...)...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out)
}

// status returns the status of one instance.
func (b *box) status(name string) control.Status {
	b.t.Helper()
	var all []control.Status
	out, err := b.output("status", "--json", name) // exit status 3: the program is not up
	if jsonErr := json.Unmarshal([]byte(out), &all); jsonErr != nil || len(all) != 1 {
		b.t.Fatalf("status of %s: %v, %v\n%s", name, err, jsonErr, out)
	}
	return all[0]
}

// stop does what `docker stop` does, and returns the container's exit status. The test fails when
// superd has not ended within engineGrace.
func (b *box) stop() int {
	b.t.Helper()
	if out, err := exec.Command("runc", "kill", b.id, "TERM").CombinedOutput(); err != nil {
		b.t.Fatalf("runc kill: %v\n%s", err, out)
	}
	select {
	case err := <-b.done:
		return b.exit(err)
	case <-time.After(engineGrace):
		b.t.Fatalf("superd has not ended %v after SIGTERM\n%s", engineGrace, b.ctl("status"))
		return 0
	}
}

// engineGrace is the time that `docker stop` leaves between SIGTERM and SIGKILL.
const engineGrace = 10 * time.Second

// wait waits until the container ends and returns its exit status.
func (b *box) wait() int {
	b.t.Helper()
	select {
	case err := <-b.done:
		return b.exit(err)
	case <-time.After(harness.Deadline):
		b.t.Fatalf("the container has not ended\n%s", b.ctl("status"))
		return 0
	}
}

func (b *box) exit(err error) int {
	b.t.Helper()
	if b.cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	if status := b.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return b.cmd.ProcessState.ExitCode()
}

// log returns what superd and its programs have printed, when the container has ended.
func (b *box) log() string {
	return b.errOut.String() + b.out.String()
}

// supervisor returns the pid, in the container, of the supervisor below PID 1.
func (b *box) supervisor() int {
	b.t.Helper()
	var version control.Version
	b.must(json.Unmarshal([]byte(b.ctl("version", "--json")), &version))
	return version.Pid
}

// processes returns the number of processes and threads in the container.
func (b *box) processes() (int, error) {
	out, err := exec.Command("runc", "events", "--stats", b.id).Output()
	if err != nil {
		return 0, err
	}
	var event struct {
		Data struct {
			Pids struct {
				Current int `json:"current"`
			} `json:"pids"`
		} `json:"data"`
	}
	err = json.Unmarshal(out, &event)
	return event.Data.Pids.Current, err
}

// addFile makes a file in the container's root before it starts.
func (b *box) addFile(name, text string) {
	b.t.Helper()
	b.must(os.WriteFile(filepath.Join(b.bundle, "rootfs", name), []byte(text), 0o644))
}
