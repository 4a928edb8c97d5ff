package engines

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"superd/exporter"
)

var (
	bed    = flag.String("bed", "", "boot exported units in this test bed (see CONTRIBUTING.md)")
	binary = flag.String("superd", "../../superd", "the superd that runs in the bed and in allocations")
)

// bootTime limits the boot with all that is tried in it.
const bootTime = 120 * time.Second

// TestSystemdBoots runs the exported units of testdata/boot.toml, and superd with all of it, under
// a real systemd.
func TestSystemdBoots(t *testing.T) {
	if *bed == "" {
		t.Skip("needs -bed: make test-engines")
	}
	f, err := exporter.Find("systemd")
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, "/run/superd.toml", "testdata/boot.toml")
	o := options()
	o.Name = "boot"
	units, err := f.Export(c, o)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := f.Whole(c, o)
	if err != nil {
		t.Fatal(err)
	}
	here, there := t.TempDir(), t.TempDir()
	for _, file := range units.Files {
		write(t, filepath.Join(here, file.Name), file.Text)
	}
	for _, file := range whole.Files {
		write(t, filepath.Join(there, file.Name), file.Text)
	}
	superd, err := filepath.Abs(*binary)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), *bed, "-t", "110", "-j", "-c", here+":/etc/systemd/system",
		"-c", there+":/opt/whole", "-c", superd+":/usr/bin/superd", "-c", "boot.sh:/opt/boot.sh", "--",
		"bash", "/opt/boot.sh", "/etc/systemd/system", "/opt/whole")
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(bootTime, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
