package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/procs/host"
)

// TestFindExecutable: each cause of a command not found has a distinct error.
func TestFindExecutable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", "#!/bin/sh\n", 0o755)
	write("args", "#! /bin/sh -e\n", 0o755)
	write("plain", "#!/bin/sh\n", 0o644)
	write("bare", "#!\n", 0o755)
	write("lost", "#!/nonexistent/sh\n", 0o755)
	write("dos", "#!/bin/sh\r\n", 0o755)
	write("relative", "#!good\n", 0o755)
	write("through", "#!"+filepath.Join(dir, "lost")+"\n", 0o755)
	write("loop", "#!"+filepath.Join(dir, "loop")+"\n", 0o755)
	write("short", "", 0o755)
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string // of the command
		path string // PATH
		want string // error without the directory's name; "" for none
	}{
		{"./good", "", ""},
		{"good", dir, ""},
		{"good", "/nonexistent:" + dir, ""},
		{"args", dir, ""},
		{"relative", dir, ""},
		{"short", dir, ""},
		{"nothing", "/nonexistent:" + dir, "find executable nothing: not in PATH /nonexistent:DIR"},
		{"./nothing", "", "open executable DIR/nothing: no such file or directory"},
		{"./nothing/at/all", "", "open executable DIR/nothing/at/all: no such file or directory"},
		{"./good/too", "", "open executable DIR/good/too: not a directory"},
		{"plain", dir, "open executable DIR/plain: not executable; try chmod +x"},
		{"./directory", "", "open executable DIR/directory: is a directory"},
		{"directory", dir, "find executable directory: not in PATH DIR"},
		{"./fifo", "", "open executable DIR/fifo: is not a regular file"},
		{"./bare", "", "open executable DIR/bare: its first line #! names no interpreter"},
		{"./lost", "", `run script DIR/lost: interpreter "/nonexistent/sh": no such file or directory`},
		{"./dos", "", `run script DIR/dos: interpreter "/bin/sh\r": no such file or directory; the script has DOS line ends`},
		{"./through", "", `run script DIR/through: interpreter "DIR/lost": interpreter "/nonexistent/sh": no such file or directory`},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, "/", "_"), func(t *testing.T) {
			_, err := (&execSearch{dir: dir, attempt: &attempt{}}).find(tt.name, []string{"PATH=" + tt.path})
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if got != tt.want {
				t.Errorf("find(%q) with PATH=%s:\n got %s\nwant %s", tt.name, tt.path, got, tt.want)
			}
		})
	}
	t.Run("too many interpreters", func(t *testing.T) {
		_, err := (&execSearch{dir: dir, attempt: &attempt{}}).find("./loop", nil)
		if err == nil || !strings.Contains(err.Error(), "too many interpreters") {
			t.Errorf("find(./loop) = %v, want too many interpreters", err)
		}
	})
}

func TestFaultOf(t *testing.T) {
	for err, want := range map[error]host.Fault{
		unix.EAGAIN: host.FaultResource, unix.EMFILE: host.FaultResource, unix.ENFILE: host.FaultResource, unix.ENOMEM: host.FaultResource,
		&os.PathError{Op: "open", Err: unix.ENOSPC}: host.FaultResource,
		unix.ENOENT: host.FaultProgram, unix.EACCES: host.FaultProgram, unix.ENOEXEC: host.FaultProgram, errors.New("other"): host.FaultProgram,
	} {
		if got := host.FaultOf(err); got != want {
			t.Errorf("host.FaultOf(%v) = %v, want %v", err, got, want)
		}
	}
}
