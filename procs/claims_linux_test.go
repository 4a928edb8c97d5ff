package procs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
)

// TestHasFIFO: a process has a FIFO of its instance if it has that very FIFO open, of any stream.
func TestHasFIFO(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "web") // has the instance's name, and is not its FIFO
	for _, path := range []string{filepath.Join(dir, "web"), filepath.Join(dir, "web:stderr"), other} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, path, instance string }{
		{"stdout", filepath.Join(dir, "web"), "web"},
		{"stderr", filepath.Join(dir, "web:stderr"), "web"},
		{"another directory", other, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fifo, err := os.OpenFile(tt.path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
			cmd.Stdout = fifo
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			s, err := procfs.ReadStat(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			check := claimCheck{fifoDir: dir}
			for _, instance := range []string{"web", "db"} {
				want := instance == tt.instance
				if got := check.hasFIFO(&trace{stat: s, envTags: envTags{instance: instance}}); got != want {
					t.Errorf("hasFIFO of %s = %t, want %t", instance, got, want)
				}
			}
		})
	}
}
