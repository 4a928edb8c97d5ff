package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var built = flag.String("binaries", "", "run the image with superd and superd-ui of this directory (root, runc, busybox-static)")

// fake returns a directory with binaries that can't run.
func fake(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range binaries {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("not "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSameBytes: two builds are equal, also from files with other times.
func TestSameBytes(t *testing.T) {
	var texts [2][]byte
	for i := range texts {
		dir := fake(t)
		when := time.Now().Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "superd"), when, when); err != nil {
			t.Fatal(err)
		}
		output := filepath.Join(t.TempDir(), "image.tar")
		if err := run([]string{"-o", output, "amd64=" + dir, "arm64=" + dir}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two builds differ")
	}
}

// imageIn writes an image of binaries into a layout, and reads it again.
func imageIn(t *testing.T, dir string) v1.Image {
	t.Helper()
	output := filepath.Join(t.TempDir(), "layout")
	if err := run([]string{"-o", output, "-version", "1.2.3", "amd64=" + dir}); err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(output)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/superd:latest" {
		t.Fatalf("the layout is %+v", top)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != 1 ||
		manifest.Manifests[0].Platform.Architecture != "amd64" {
		t.Errorf("the index is %+v", manifest)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestTypes: all parts have the types of OCI, and the configuration starts superd.
func TestTypes(t *testing.T) {
	image := imageIn(t, fake(t))
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON ||
		len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != types.OCILayer {
		t.Errorf("the manifest is %+v", manifest)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/usr/bin/superd run" || config.Architecture != "amd64" ||
		config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" {
		t.Errorf("the configuration is %+v", config)
	}
}

// unpack writes the files of an image below root.
func unpack(t *testing.T, image v1.Image, root string) {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageRuns runs the image itself with runc: the root is read-only, and there are no
// capabilities. It is run as root and as a user that no file knows.
func TestImageRuns(t *testing.T) {
	if *built == "" {
		t.Skip("needs -binaries: make test-containers")
	}
	for _, uid := range []int{0, 12345} {
		c := newContainer(t, imageIn(t, *built), uid, `
[superd]
exit_when = "never"
[defaults]
log = { sink = "stdout" }
[program.setup]
type = "oneshot"
command = ["/app/busybox", "sh", "-c", "echo secret is $(/app/busybox cat /app/secret)"]
[program.environment]
type = "oneshot"
command = ["/app/busybox", "sh", "/app/environment.sh", "/app/env", "/run/environment"]
[program.web]
env_file = "-/run/environment"
command = ["/app/busybox", "sh", "-c", "echo \"web as $(/app/busybox id -u) has $GREETING\"; trap 'echo bye; exit 0' TERM; /app/busybox sleep 1000 & wait"]
requires = ["setup", "environment"]
ready = { exec = ["/app/busybox", "true"] }
`)
		c.until("ready", "web")
		if out, err := c.exec("/usr/bin/superd", "ready", "nothing"); err == nil {
			t.Errorf("uid %d: superd ready of an unknown program succeeds: %s", uid, out)
		}
		if out, err := c.exec("/app/busybox", "touch", "/usr/bin/x"); err == nil {
			t.Errorf("uid %d: the root can be written: %s", uid, out)
		}
		begun := time.Now()
		c.runc("kill", c.id, "TERM")
		if err := c.wait(); err != nil {
			t.Errorf("uid %d: it ends with %v", uid, err)
		}
		if took := time.Since(begun); took > 10*time.Second { // what docker stop allows
			t.Errorf("uid %d: the stop takes %v", uid, took)
		}
		for _, want := range []string{"setup stdout secret is open sesame",
			fmt.Sprintf("web stdout web as %d has it's \"well\" $HOME", uid), "web stdout bye"} {
			if !strings.Contains(c.out.String(), want) {
				t.Errorf("uid %d: the output lacks %q:\n%s%s", uid, want, c.out.String(), c.errOut.String())
			}
		}
	}
}

// TestFailedSetup: a container whose setup fails ends with its status, and nothing else starts.
func TestFailedSetup(t *testing.T) {
	if *built == "" {
		t.Skip("needs -binaries: make test-containers")
	}
	c := newContainer(t, imageIn(t, *built), 0, `
[superd]
exit_when = "any-failed"
[defaults]
log = { sink = "stdout" }
[program.setup]
type = "oneshot"
command = ["/app/busybox", "sh", "-c", "exit 7"]
[program.web]
command = ["/app/busybox", "sh", "-c", "echo started; /app/busybox sleep 1000"]
requires = ["setup"]
`)
	err := c.wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 || strings.Contains(c.out.String(), "started") {
		t.Errorf("the container ends with %v, want status 7:\n%s%s", err, c.out.String(), c.errOut.String())
	}
}

// A container is a running one of runc.
type container struct {
	t           *testing.T
	id          string
	cmd         *exec.Cmd
	done        chan error
	out, errOut bytes.Buffer
}

// newContainer starts a container of an image, with busybox in /app and a configuration.
func newContainer(t *testing.T, image v1.Image, uid int, toml string) *container {
	t.Helper()
	bundle := t.TempDir()
	root, app := filepath.Join(bundle, "rootfs"), filepath.Join(bundle, "app")
	unpack(t, image, root)
	busybox, err := os.ReadFile("/bin/busybox")
	must(t, err)
	must(t, os.Mkdir(app, 0o755))
	must(t, os.WriteFile(filepath.Join(app, "busybox"), busybox, 0o755))
	must(t, os.WriteFile(filepath.Join(app, "secret"), []byte("open sesame\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(bundle, "superd.toml"), []byte(toml), 0o644))
	must(t, os.Mkdir(filepath.Join(app, "env"), 0o755))
	must(t, os.WriteFile(filepath.Join(app, "env/GREETING"), []byte("it's \"well\" $HOME\n"), 0o644))
	script, err := os.ReadFile("environment.sh")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(app, "environment.sh"), script, 0o644))
	for _, dir := range []string{"proc", "sys", "dev", "app"} { // an engine makes them
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "etc/superd/superd.toml"), nil, 0o644))
	spec := exec.Command("runc", "spec")
	spec.Dir = bundle
	if out, err := spec.CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v\n%s", err, out)
	}
	path := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(path)
	must(t, err)
	var config map[string]any
	must(t, json.Unmarshal(text, &config))
	file, err := image.ConfigFile()
	must(t, err)
	process := config["process"].(map[string]any)
	process["terminal"] = false
	process["args"] = append(file.Config.Entrypoint, file.Config.Cmd...)
	process["env"] = file.Config.Env
	process["cwd"] = file.Config.WorkingDir
	process["user"] = map[string]any{"uid": uid, "gid": uid}
	capabilities := process["capabilities"].(map[string]any)
	for set := range capabilities {
		capabilities[set] = []string{}
	}
	bind := func(from, to string) map[string]any {
		return map[string]any{"destination": to, "type": "bind", "source": from, "options": []string{"bind", "ro"}}
	}
	config["mounts"] = append(config["mounts"].([]any),
		bind(app, "/app"), bind(filepath.Join(bundle, "superd.toml"), configFile),
		map[string]any{"destination": "/run", "type": "tmpfs", "source": "tmpfs",
			"options": []string{"nosuid", "nodev", "mode=1777", "size=16m"}})
	text, err = json.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o644))
	c := &container{t: t, id: "superd-image-" + filepath.Base(filepath.Dir(bundle)) + filepath.Base(bundle), done: make(chan error, 1)}
	c.cmd = exec.Command("runc", "run", "--bundle", bundle, c.id)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.errOut
	must(t, c.cmd.Start())
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = exec.Command("runc", "delete", "--force", c.id).Run() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deadline is what only a defect reaches.
const deadline = 30 * time.Second

// until repeats a command of superd in the container until it succeeds.
func (c *container) until(args ...string) {
	c.t.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(100 * time.Millisecond) {
		out, err := c.exec(append([]string{"/usr/bin/superd"}, args...)...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.runc("kill", c.id, "KILL")
			_ = c.wait()
			c.t.Fatalf("superd %q: %v %s\n%s%s", args, err, out, c.out.String(), c.errOut.String())
		}
	}
}

func (c *container) exec(args ...string) (string, error) {
	out, err := exec.Command("runc", append([]string{"exec", c.id}, args...)...).CombinedOutput()
	return string(out), err
}

func (c *container) runc(args ...string) {
	c.t.Helper()
	if out, err := exec.Command("runc", args...).CombinedOutput(); err != nil {
		c.t.Errorf("runc %q: %v\n%s", args, err, out)
	}
}

// wait waits for the end of the container.
func (c *container) wait() error {
	select {
	case err := <-c.done:
		return err
	case <-time.After(deadline):
		return errors.New("it does not end")
	}
}
