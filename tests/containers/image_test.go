package containers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/harness"
)

// A podman is Debian's podman with a storage of its own, and with runc: crun refuses machines on
// which controllers of cgroup v1 and v2 are mixed.
type podman struct {
	t    *testing.T
	root string
}

// run runs podman and returns its standard output.
func (p *podman) run(args ...string) (string, error) {
	var out, errOut bytes.Buffer
	cmd := exec.Command("podman", append([]string{
		"--root", p.root + "/root", "--runroot", p.root + "/run", "--tmpdir", p.root + "/tmp", "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc",
	}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, &errOut)
	}
	return out.String(), err
}

func (p *podman) must(args ...string) string {
	p.t.Helper()
	out, err := p.run(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// builtImage is the archive of the image, which is built once.
var builtImage = sync.OnceValues(func() ([]byte, error) {
	superd, err := exec.LookPath("superd")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "superd-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(superd)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"superd", "superd-ui"} { // the second is not run here
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			return nil, err
		}
	}
	var last []byte
	for range 2 {
		out := filepath.Join(dir, "image.tar")
		build := exec.Command("go", "-C", "../../packaging/container", "run", ".", "-o", out, "-version", "test",
			"-commit", "test", "amd64="+dir)
		build.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, said)
		}
		built, err := os.ReadFile(out)
		switch {
		case err != nil:
			return nil, err
		case last != nil && !bytes.Equal(last, built):
			return nil, fmt.Errorf("two builds of the image differ")
		}
		last = built
	}
	return last, nil
})

// newPodman returns a podman that has the image as superd:test, and app, which is the example
// Containerfile with busybox as its base and these programs.
func newPodman(t *testing.T, programs string) *podman {
	t.Helper()
	if !*enabled {
		t.Skip("needs -containers: make test-containers")
	}
	image, err := builtImage()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "superd-podman-")
	if err != nil {
		t.Fatal(err)
	}
	p := &podman{t, root}
	t.Cleanup(func() { // a process of podman may still tidy up there
		harness.Until(t, "the storage is removed", func() bool { return os.RemoveAll(root) == nil })
	})
	archive := filepath.Join(p.root, "superd.tar")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(archive, string(image))
	p.must("load", "--quiet", "--input", archive)
	if programs == "" {
		return p
	}
	context := t.TempDir()
	if err := os.Mkdir(filepath.Join(context, "conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(context, "conf.d/app.toml"), programs)
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(context, "busybox"), string(busybox))
	write(filepath.Join(context, "Base"), `FROM scratch
COPY busybox /bin/busybox
COPY busybox /bin/sh
`)
	example, err := os.ReadFile("../../packaging/container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(context, "Containerfile"), string(example))
	p.must("build", "--quiet", "--isolation", "chroot", "--tag", "base", "--file", filepath.Join(context, "Base"), context)
	p.must("build", "--quiet", "--isolation", "chroot", "--tag", "app", "--format", "docker",
		"--build-arg", "SUPERD=localhost/superd:test", "--build-arg", "BASE=localhost/base", context)
	return p
}

// start starts a container of app with these options and arguments, and returns its name.
func (p *podman) start(options []string, arguments ...string) string {
	p.t.Helper()
	const name = "app"
	// The default limits of podman need rights that this machine may not have
	args := append([]string{
		"run", "--detach", "--name", name, "--network", "none", "--no-healthcheck",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
	}, options...)
	p.must(append(append(args, "app"), arguments...)...)
	p.t.Cleanup(func() {
		if _, err := p.run("rm", "--force", "--time", "0", name); err != nil {
			p.t.Error(err)
		}
	})
	return name
}

// TestImage: the example Containerfile on the image runs as the strictest container: a read-only
// root with a tmpfs, any user, no capability. Secrets come as files, a one-shot prepares, the
// health check tells, output is on stdout, and it stops in time.
func TestImage(t *testing.T) {
	p := newPodman(t, `
[program.prepare]
type = "oneshot"
command = ["busybox", "sh", "-c", "busybox sleep 0.2; echo prepared > /tmp/prepared"]

[program.web]
command = ["busybox", "sh", "-c", "busybox cat /tmp/prepared; echo $PASSWORD $(busybox id -u); trap 'echo bye; exit 0' TERM; while :; do busybox sleep 0.1; done"]
env_file = "/run/secrets"
requires = ["prepare"]
`)
	secrets := t.TempDir()
	if err := os.WriteFile(filepath.Join(secrets, "PASSWORD"), []byte("it's secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secrets, 0o755); err != nil {
		t.Fatal(err)
	}
	name := p.start([]string{
		"--read-only", "--read-only-tmpfs=false", "--tmpfs", "/run", "--tmpfs", "/tmp", "--user", "54321:0",
		"--cap-drop", "all", "--volume", secrets + ":/run/secrets:ro",
	})
	ready := func() bool {
		_, err := p.run("exec", name, "/usr/bin/superd", "ctl", "ready")
		return err == nil
	}
	harness.Until(t, "the health check is content", ready)
	begin := time.Now()
	p.must("stop", name)
	if took := time.Since(begin); took > engineGrace {
		t.Errorf("podman stop took %v", took)
	}
	if status := strings.TrimSpace(p.must("inspect", "--format", "{{.State.ExitCode}}", name)); status != "0" {
		t.Errorf("exit status %s", status)
	}
	log := p.must("logs", name)
	for _, want := range []string{" web stdout prepared\n", " web stdout it's secret 54321\n", " web stdout bye\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the output lacks %q:\n%s", want, log)
		}
	}
}

// TestImageHealth: the health check fails when a program is not ready, and names it.
func TestImageHealth(t *testing.T) {
	p := newPodman(t, `
[program.web]
command = ["busybox", "false"]
[program.off]
command = ["busybox", "true"]
autostart = false
`)
	name := p.start(nil)
	harness.Until(t, "the health check names the program", func() bool {
		_, err := p.run("exec", name, "/usr/bin/superd", "ctl", "ready")
		return err != nil && strings.Contains(err.Error(), "web: not ready: backoff") && !strings.Contains(err.Error(), "off:")
	})
}

// TestImageOfOneProgram: superd runs one program without a configuration and without a writable
// directory, forwards a signal, and ends with the program's exit status.
func TestImageOfOneProgram(t *testing.T) {
	p := newPodman(t, "[program.unused]\ncommand = \"busybox true\"\n")
	name := p.start([]string{"--read-only", "--read-only-tmpfs=false", "--user", "54321", "--cap-drop", "all",
		"--entrypoint", `["/usr/bin/superd", "run", "--"]`},
		"busybox", "sh", "-c", "trap 'echo bye; exit 7' USR1; echo hello; while :; do busybox sleep 0.1; done")
	harness.Until(t, "the program runs", func() bool { return p.must("logs", name) == "hello\n" })
	p.must("kill", "--signal", "USR1", name)
	if status := strings.TrimSpace(p.must("wait", name)); status != "7" {
		t.Errorf("exit status %s, want 7", status)
	}
	if log := p.must("logs", name); log != "hello\nbye\n" {
		t.Errorf("the output is %q", log)
	}
}

// TestPageHasContainerfile: the page shows the file as it is.
func TestPageHasContainerfile(t *testing.T) {
	page, err := os.ReadFile("../../docs/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../packaging/container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, instructions, _ := strings.Cut(string(file), "\nARG ")
	if want := "```dockerfile\nARG " + instructions + "```\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/containers.md lacks\n%s", want)
	}
}

// TestImageAlone: the image by itself runs superd, and says what it is.
func TestImageAlone(t *testing.T) {
	p := newPodman(t, "")
	out := p.must("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
		"superd:test", "version")
	if !strings.HasPrefix(out, "superd ") {
		t.Errorf("superd version says %q", out)
	}
	for label, want := range map[string]string{"title": "superd", "version": "test", "licenses": "MIT"} {
		got := p.must("inspect", "--format", `{{index .Config.Labels "org.opencontainers.image.`+label+`"}}`, "superd:test")
		if strings.TrimSpace(got) != want {
			t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
}
