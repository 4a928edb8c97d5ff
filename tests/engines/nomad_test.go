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

var engines = flag.String("engines", "", "run what build.sh has built in this directory")

// nomadTime limits the run of Nomad in the bed.
const nomadTime = 5 * time.Minute

// TestNomadRuns runs the exported jobs of testdata/nomad.toml with a Nomad agent, and superd with
// all of it in an allocation.
func TestNomadRuns(t *testing.T) {
	if *engines == "" || *bed == "" {
		t.Skip("needs -engines and -bed: make test-engines")
	}
	f, err := exporter.Find("nomad")
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, "/run/superd.toml", "testdata/nomad.toml")
	jobs, whole := t.TempDir(), t.TempDir()
	o := options()
	e, err := f.Export(c, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range e.Files {
		write(t, filepath.Join(jobs, file.Name), file.Text)
	}
	o.Name = "shop-whole"
	if e, err = f.Whole(c, o); err != nil {
		t.Fatal(err)
	}
	for _, file := range e.Files {
		write(t, filepath.Join(whole, file.Name), file.Text)
	}
	valid := t.TempDir()
	for _, e := range exports(t, "nomad") {
		for _, file := range e.Files {
			write(t, filepath.Join(valid, e.name+"-"+file.Name), file.Text)
		}
	}
	superd, err := filepath.Abs(*binary)
	if err != nil {
		t.Fatal(err)
	}
	nomad, err := filepath.EvalSymlinks(filepath.Join(*engines, "nomad"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), *bed, "-t", "280", "-c", jobs+":/opt/jobs", "-c", whole+":/opt/whole",
		"-c", superd+":/usr/bin/superd", "-B", nomad+":/opt/nomad", "-c", "nomad.sh:/opt/nomad.sh", "-c", valid+":/opt/valid", "--",
		"bash", "/opt/nomad.sh", "/opt/jobs", "/opt/whole", "/opt/valid")
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(nomadTime, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
