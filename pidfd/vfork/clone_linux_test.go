//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

import (
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClone: a child executes its program with its arguments, its environment, its directory and
// its files, or leaves the errno. Without a program it exits at once.
func TestClone(t *testing.T) {
	dir := t.TempDir()
	shell := []string{"sh", "-c", `test "$A$1" = bc && test "$PWD" = ` + dir + ` && exit 7`, "sh", "c"}
	for _, tt := range []struct {
		name  string
		path  string
		args  []string
		env   []string
		errno syscall.Errno
		exit  int
	}{
		{"a program", "/bin/sh", shell, []string{"A=b", "PWD=" + dir}, 0, 7},
		{"no such file", filepath.Join(dir, "none"), []string{"none"}, nil, syscall.ENOENT, 127},
		{"none", "", nil, nil, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, numbers := new(Spec), [2]int32{-1, 0}
			s.Reset()
			s.PidFD, s.Pid = &numbers[0], &numbers[1]
			if tt.path != "" {
				if err := s.SetProgram(tt.path, dir, tt.args, tt.env); err != nil {
					t.Fatal(err)
				}
			}
			pid, errno := s.Clone()
			if errno != 0 {
				t.Fatal(errno)
			}
			defer unix.Close(int(numbers[0]))
			if s.Errno != tt.errno || numbers[0] < 0 || tt.path != "" && int(numbers[1]) != pid {
				t.Errorf("pid %d: %v, pidfd and pid %v; want %v", pid, s.Errno, numbers, tt.errno)
			}
			var status unix.WaitStatus
			if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
				t.Fatal(err)
			}
			if status.ExitStatus() != tt.exit {
				t.Errorf("exit status %d, want %d", status.ExitStatus(), tt.exit)
			}
		})
	}
}

// TestReset: a Spec that is used again has nothing of the child before.
func TestReset(t *testing.T) {
	s := new(Spec)
	s.Reset()
	s.Files, s.Room, s.OwnTable, s.Errno = append(s.Files, 5), 100, 1, syscall.ENOENT
	if err := s.SetProgram("/bin/true", "/", []string{"true"}, []string{"A=b"}); err != nil {
		t.Fatal(err)
	}
	s.Reset()
	if s.path != nil || s.dir != nil || s.argv != nil || s.envv != nil || len(s.Files) > 0 || s.Room != 0 || s.OwnTable != 0 || s.Errno != 0 || s.KeepFD != -1 || s.Cgroup != -1 {
		t.Errorf("after Reset: %+v", s)
	}
	if err := s.SetProgram("/bin/\x00true", "", nil, nil); err != syscall.EINVAL {
		t.Errorf("a path with a NUL: %v, want EINVAL", err)
	}
}
