package linux

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/procs/linux/proctree"
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
				if got := check.hasFIFO(&proctree.TaggedProcess{Stat: s, Tags: proctree.Tags{Instance: instance}}); got != want {
					t.Errorf("hasFIFO of %s = %t, want %t", instance, got, want)
				}
			}
		})
	}
}

func TestAtSecure(t *testing.T) {
	words := func(word int, values ...uint32) (vector []byte) {
		for _, v := range values {
			if word == 8 {
				vector = binary.NativeEndian.AppendUint64(vector, uint64(v))
			} else {
				vector = binary.NativeEndian.AppendUint32(vector, v)
			}
		}
		return vector
	}
	tests := []struct {
		name       string
		values     []uint32
		secure, ok bool
	}{
		{"plain", []uint32{33, 4096, 23, 0, 0, 0}, false, true},
		{"privileged", []uint32{33, 4096, 23, 1, 31, 77, 0, 0}, true, true},
		{"without it", []uint32{33, 4096, 0, 0}, false, false},
		{"cut off", []uint32{33, 4096, 23, 1}, false, false},
		{"empty", nil, false, false},
	}
	for _, tt := range tests {
		for _, word := range []int{4, 8} {
			if secure, ok := atSecure(words(word, tt.values...), word); secure != tt.secure || ok != tt.ok {
				t.Errorf("%s, words of %d bytes: %t, %t, want %t, %t", tt.name, word, secure, ok, tt.secure, tt.ok)
			}
		}
	}
	if _, ok := atSecure(words(4, 33, 4096, 23, 0, 25, 5, 0, 0), 8); ok {
		t.Error("words of 4 bytes are taken for words of 8")
	}
	if gainedPrivileges(os.Getpid()) {
		t.Error("this process gained privileges by its exec")
	}
}
