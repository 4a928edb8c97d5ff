package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/procs/linux/linuxtest"
)

// TestUnitCgroupIsEmptied lets a process in the unit's cgroup kill all others there, some of which
// keep forking a successor. Run by itself in that cgroup, the test binary is that process.
func TestUnitCgroupIsEmptied(t *testing.T) {
	const variable = "UNIT_CGROUP"
	if dirs := filepath.SplitList(os.Getenv(variable)); len(dirs) > 0 {
		killed, err := (&Unit{dir: dirs[0], own: dirs[1]}).Kill(linuxtest.Patience)
		fmt.Println("killed", killed > 0, err)
		return
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := findCgroup(string(mountinfo), string(membership))
	if err != nil {
		t.Skip(err)
	}
	unit := filepath.Join(dir, fmt.Sprintf("superd-test-unit-%d", os.Getpid()))
	if err := os.Mkdir(unit, 0o755); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct{ name, own, others string }{
		{"beside the others", ".", "."},
		{"the others below", ".", "web"},
		{"put aside by systemd", ".control", "."},
		{"put aside, the others below", ".control", "web/inner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(func() {
				if err := removeCgroup(unit, linuxtest.Patience); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
			})
			own, others := filepath.Join(unit, tt.own), filepath.Join(unit, tt.others)
			if err := errors.Join(os.MkdirAll(own, 0o755), os.MkdirAll(others, 0o755)); err != nil {
				t.Fatal(err)
			}
			in := func(dir string, cmd *exec.Cmd) *exec.Cmd {
				fd, err := openCgroup(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Close(fd) })
				cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
				return cmd
			}
			for range 10 {
				for range 2 {
					if err := in(others, exec.Command("/bin/sh", "-c", "r() { r & }; r")).Run(); err != nil {
						t.Fatal(err)
					}
				}
				killer := in(own, exec.Command("/proc/self/exe", "-test.run", "^TestUnitCgroupIsEmptied$"))
				killer.Env = append(os.Environ(), variable+"="+unit+":"+own, "GORACE=atexit_sleep_ms=0")
				out, err := killer.Output()
				lives, _ := populated(unit)
				if lives {
					writeFile(filepath.Join(unit, "cgroup.kill"), "1")
				}
				if err != nil || lives || !strings.HasPrefix(string(out), "killed true <nil>\n") {
					t.Fatalf("%s, %v; somebody lives: %v", out, err, lives)
				}
			}
		})
	}
}
