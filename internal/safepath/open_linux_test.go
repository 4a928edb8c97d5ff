package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// otherUID is a user that is neither root nor the test.
const otherUID = 54321

// A site is a directory in a trusted place with one of the stranger in it. It needs root.
type site struct{ t *testing.T }

// newSite makes a site and changes into it. "theirs" belongs to the stranger; "ours" does not, and
// has the file "secret".
func newSite(t *testing.T) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of another user")
	}
	base, err := os.MkdirTemp("/run", "safepath-") // below /tmp all would be in a sticky directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	t.Chdir(base)
	s := &site{t}
	s.mkdir("ours", 0)
	s.mkdir("theirs", otherUID)
	s.write("ours/secret", 0)
	return s
}

func (s *site) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) mkdir(path string, uid int) {
	s.t.Helper()
	s.ok(os.Mkdir(path, 0o755))
	s.ok(os.Chown(path, uid, uid))
}

func (s *site) write(path string, uid int) {
	s.t.Helper()
	s.ok(os.WriteFile(path, []byte("secret\n"), 0o600))
	s.ok(os.Chown(path, uid, uid))
}

func (s *site) link(target, path string, uid int) {
	s.t.Helper()
	s.ok(os.Symlink(target, path))
	s.ok(os.Lchown(path, uid, uid))
}

func TestOpen(t *testing.T) {
	tests := []struct {
		name  string
		build func(s *site)
		path  string
		want  string // "": opened; otherwise a part of the error
	}{
		{"a file of root", func(s *site) {}, "ours/secret", ""},
		{"a new file in a strange directory", func(s *site) {}, "theirs/new", ""},
		{"a file of its user", func(s *site) { s.write("theirs/log", otherUID) }, "theirs/log", ""},
		{"a file of superd's", func(s *site) { s.write("theirs/log", 0) }, "theirs/log", ""},
		{"a file of a third user", func(s *site) { s.write("theirs/log", otherUID+1) }, "theirs/log",
			"it belongs to user 54322, and user 54321 may write"},
		{"a file of a third user in our directory", func(s *site) { s.write("ours/log", otherUID) }, "ours/log", ""},
		{"a link of the user", func(s *site) { s.link("../ours/secret", "theirs/log", otherUID) }, "theirs/log", "it is a symbolic link"},
		{"a link of root may have been moved there", func(s *site) { s.link("../ours/secret", "theirs/log", 0) }, "theirs/log", "it is a symbolic link"},
		{"a link to nothing", func(s *site) { s.link("../ours/new", "theirs/log", otherUID) }, "theirs/log", "it is a symbolic link"},
		{"a link as a directory", func(s *site) { s.link("../ours", "theirs/logs", otherUID) }, "theirs/logs/secret", "it is a symbolic link"},
		{"a link of the administrator", func(s *site) { s.link("secret", "ours/log", 0) }, "ours/log", ""},
		{"a link of the administrator to a new file", func(s *site) { s.link("../theirs/new", "ours/log", 0) }, "ours/log", ""},
		{"a link of the administrator to a link of the user", func(s *site) {
			s.link("../theirs/log", "ours/log", 0)
			s.link("../ours/secret", "theirs/log", otherUID)
		}, "ours/log", "it is a symbolic link"},
		{"a directory that the user can move", func(s *site) {
			s.mkdir("theirs/deep", 0)
			s.link("../../ours/secret", "theirs/deep/log", 0)
		}, "theirs/deep/log", "it is a symbolic link"},
		{"a file in such a directory", func(s *site) { s.mkdir("theirs/deep", 0) }, "theirs/deep/log", ""},
		{"back from such a directory", func(s *site) { s.link("secret", "ours/log", 0) }, "theirs/../ours/log", ""},
		{"a hard link", func(s *site) { s.ok(os.Link("ours/secret", "theirs/log")) }, "theirs/log", "it has 2 names"},
		{"a hard link of the administrator", func(s *site) { s.ok(os.Link("ours/secret", "ours/log")) }, "ours/log", ""},
		{"a FIFO", func(s *site) { s.ok(unix.Mkfifo("theirs/log", 0o666)) }, "theirs/log", "it is a FIFO"},
		{"a FIFO in a directory for all", func(s *site) {
			s.ok(os.Chmod("ours", 0o777))
			s.ok(unix.Mkfifo("ours/log", 0o666))
		}, "ours/log", "it is a FIFO, and every user may write"},
		{"a socket", func(s *site) {
			s.ok(unix.Mknod("theirs/log", unix.S_IFSOCK|0o666, 0))
		}, "theirs/log", "it is a socket"},
		{"a directory", func(s *site) { s.mkdir("theirs/log", 0) }, "theirs/log", "it is a directory"},
		{"our link in a sticky directory", func(s *site) {
			s.ok(os.Chmod("ours", fs.ModeSticky|0o777))
			s.link("secret", "ours/log", 0)
		}, "ours/log", ""},
		{"a strange link in a sticky directory", func(s *site) {
			s.ok(os.Chmod("ours", fs.ModeSticky|0o777))
			s.link("secret", "ours/log", otherUID)
		}, "ours/log", "it is a symbolic link"},
		{"our directory in a sticky directory", func(s *site) {
			s.ok(os.Chmod("ours", fs.ModeSticky|0o777))
			s.mkdir("ours/logs", 0)
			s.link("../secret", "ours/logs/log", 0)
		}, "ours/logs/log", ""},
		{"a device", func(s *site) {}, "/dev/null", ""},
		{"a link to a device", func(s *site) { s.link("/dev/null", "ours/log", 0) }, "ours/log", ""},
		{"standard output", func(s *site) {}, "/proc/self/fd/1", ""},
		{"a circle of links", func(s *site) { s.link("log", "ours/log", 0) }, "ours/log", "too many levels"},
		{"no such directory", func(s *site) {}, "ours/none/log", "no such file"},
		{"a file as a directory", func(s *site) {}, "ours/secret/log", "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.build(s)
			f, err := Open(tt.path, unix.O_WRONLY|unix.O_CREAT, 0o640)
			if err == nil {
				unix.Close(f.FD)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Open(%q): %v, want it to be opened", tt.path, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Open(%q): %v, want an error with %q", tt.path, err, tt.want)
			}
			if _, refused := errors.AsType[*RefusedError](err); refused != (strings.HasPrefix(tt.want, "it ")) {
				t.Errorf("Open(%q): %v: a RefusedError is %v", tt.path, err, refused)
			}
			if _, err := os.Stat("ours/new"); err == nil {
				t.Errorf("Open(%q) has made a file in another directory", tt.path)
			}
		})
	}
}

// TestTruncateChecksFirst: a refused file is not changed before the check.
func TestTruncateChecksFirst(t *testing.T) {
	s := newSite(t)
	s.ok(os.Link("ours/secret", "theirs/log"))
	if f, err := Open("theirs/log", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o600); err == nil {
		t.Errorf("opened a hard link: %+v", f)
	}
	if text, _ := os.ReadFile("ours/secret"); string(text) != "secret\n" {
		t.Errorf("the file of root holds %q", text)
	}
	f, err := Open("ours/secret", unix.O_RDWR|unix.O_TRUNC, 0)
	s.ok(err)
	defer unix.Close(f.FD)
	if text, _ := os.ReadFile("ours/secret"); len(text) > 0 || f.Info.Size != 0 || f.Created {
		t.Errorf("truncated: the file has %q, Open returned %+v", text, f)
	}
}

func TestOpenReportsCreation(t *testing.T) {
	s := newSite(t)
	for _, created := range []bool{true, false} {
		f, err := Open("ours/new", unix.O_WRONLY|unix.O_CREAT, 0o640)
		s.ok(err)
		unix.Close(f.FD)
		if f.Created != created {
			t.Errorf("Made = %v, want %v", f.Created, created)
		}
	}
	if _, err := Open("ours/new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o640); !errors.Is(err, fs.ErrExist) {
		t.Errorf("with O_EXCL: %v, want that it exists", err)
	}
}

func TestReadFile(t *testing.T) {
	s := newSite(t)
	s.ok(unix.Mkfifo("ours/fifo", 0o600))
	s.link("../ours/secret", "theirs/link", otherUID)
	if text, err := ReadFile("ours/secret", 7); err != nil || string(text) != "secret\n" {
		t.Errorf("read %q, %v", text, err)
	}
	for path, want := range map[string]string{
		"ours/fifo": "a FIFO, not a regular file", "ours": "a directory, not", "theirs/link": "a symbolic link",
	} {
		if text, err := ReadFile(path, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadFile(%q) = %q, %v, want an error with %q", path, text, err, want)
		}
	}
	if _, err := ReadFile("ours/secret", 6); err == nil || !strings.Contains(err.Error(), "more than 6 bytes") {
		t.Errorf("a longer file: %v", err)
	}
}

func TestDir(t *testing.T) {
	s := newSite(t)
	if _, err := MakeDir("theirs/a/b", 0o750); err != nil {
		t.Errorf("make directories: %v", err)
	}
	s.link("../ours", "theirs/out", otherUID)
	if _, err := MakeDir("theirs/out/b", 0o750); err == nil {
		t.Error("made a directory behind a link of another user")
	}
	s.write("theirs/log", otherUID)
	s.write("theirs/log.1", otherUID)
	dir, err := OpenDir("theirs")
	s.ok(err)
	defer dir.Close()
	if got, _ := dir.Names(); strings.Join(got, " ") != "a log log.1 out" {
		t.Errorf("names: %q", got)
	}
	if base, _ := os.Getwd(); dir.Exposed() != "user 54321 may write "+filepath.Join(base, "theirs") {
		t.Errorf("exposed: %q", dir.Exposed())
	}
	if err := dir.RenameNew("log", "log.1"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("rename onto another file: %v", err)
	}
	s.ok(dir.RenameNew("log", "log.2"))
	s.ok(dir.Remove("out"))
	if _, err := os.Stat("ours/secret"); err != nil {
		t.Errorf("removing a link has removed what it leads to: %v", err)
	}
	fd, err := dir.OpenNameless()
	s.ok(err)
	unix.Close(fd)
	if got, _ := dir.Names(); strings.Join(got, " ") != "a log.1 log.2" {
		t.Errorf("names: %q", got)
	}
}

// TestOpenFileOfProcfs: a link of procfs stands for an open file, which can't be renamed: a check
// of its path would make a new file.
func TestOpenFileOfProcfs(t *testing.T) {
	s := newSite(t)
	file, err := os.Open("ours/secret")
	s.ok(err)
	defer file.Close()
	dir, name, err := Locate(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	s.ok(err)
	defer dir.Close()
	info, err := dir.Stat(name)
	s.ok(err)
	if want, err := StatFD(int(file.Fd())); err != nil || info.Inode != want.Inode {
		t.Errorf("Stat(%q) = %+v, want %+v", name, info, want)
	}
	if err := dir.RenameNew(name, name+".old"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("rename: %v, want that it is not permitted", err)
	}
	if err := dir.Remove(name); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("remove: %v, want that it is not permitted", err)
	}
}

// TestAccessControlList: a list lets a user write to a directory of root whose group is root's.
func TestAccessControlList(t *testing.T) {
	s := newSite(t)
	err := unix.Setxattr("ours", "system.posix_acl_access", aclOf(aclEntry{0x02, 7, otherUID}), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no access control lists here")
	}
	s.ok(err)
	s.link("secret", "ours/log", otherUID)
	f, err := Open("ours/log", unix.O_WRONLY, 0)
	if err == nil {
		unix.Close(f.FD)
	}
	if err == nil || !strings.Contains(err.Error(), "it is a symbolic link, and user 54321 may write") {
		t.Errorf("Open of a link: %v, want that it is refused", err)
	}
}

// TestDirectoryOfProcfs: the directory of a procfs link is that of its target, not that of the
// link.
func TestDirectoryOfProcfs(t *testing.T) {
	path := t.TempDir()
	own, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	dir, err := OpenDir(fmt.Sprintf("/proc/self/fd/%d", own.FD()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if dir.Path() != path {
		t.Errorf("it is %s, want %s", dir.Path(), path)
	}
}

const inNamespace = "SAFEPATH_TEST_IN_NAMESPACE"

// TestProcfsOfUserNamespace: in most containers without privileges on the host, /proc and its links
// belong to nobody.
func TestProcfsOfUserNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		if dir, err := os.Stat("/proc"); err != nil || dir.Sys().(*syscall.Stat_t).Uid != overflowUID {
			t.Fatalf("/proc belongs to root, %v", err)
		}
		f, err := Open("/proc/self/fd/0", unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(f.FD)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to have 65,536 users in a namespace")
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestProcfsOfUserNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) {
		t.Skip("no user namespaces here:", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestMaps(t *testing.T) {
	const rootless = "         0       1000          1\n         1     100000      65536\n"
	tests := []struct {
		table string
		want  bool
	}{
		{"         0          0 4294967295\n", true},
		{rootless, true},
		{"         0       1000          1\n", false},
		{"", false},
	}
	for _, tt := range tests {
		if got := maps(tt.table, overflowUID); got != tt.want {
			t.Errorf("maps(%q, %d) = %v, want %v", tt.table, overflowUID, got, tt.want)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	for b.Loop() {
		f, err := Open(path, unix.O_WRONLY|unix.O_CREAT, 0o640)
		if err != nil {
			b.Fatal(err)
		}
		unix.Close(f.FD)
	}
}
