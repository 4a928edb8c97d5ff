package pidfd

import (
	"errors"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSpawnGivesArgumentsEnvironmentAndDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := spawnAttr(t, &Attr{
		Path: "/bin/sh", Args: []string{"a name", "-c", `echo "$0|$1|$A|$HOME|"; pwd`, "zero", "one"},
		Env: []string{"A=b c"}, Dir: dir, CgroupFD: -1,
	})
	if got, want := c.silent(t), "zero|one|b c||\n"+dir+"\n"; got != want {
		t.Errorf("the child printed %q, want %q", got, want)
	}
	if e := mustExit(t, c.Process); !e.Success() {
		t.Errorf("Wait() = %v, want exit status 0", e)
	}
}

// TestSpawnTellsThePid: the child finds its pid in its environment, also through slots that were
// used before.
func TestSpawnTellsThePid(t *testing.T) {
	if Portable {
		t.Skip("the portable fork leaves it to the program")
	}
	slots, err := ReserveSlots(-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	for _, with := range []*Slots{nil, slots, slots} {
		c := spawnAttr(t, &Attr{
			Path: "/bin/sh", Args: []string{"sh", "-c", `echo "$$|$LISTEN_PID|$A|$Z"`},
			Env: []string{"A=b", "LISTEN_PID=", "Z=c"}, PidVariable: "LISTEN_PID=", CgroupFD: -1, Slots: with,
		})
		pid := strconv.Itoa(c.Pid())
		if got, want := c.silent(t), pid+"|"+pid+"|b|c\n"; got != want {
			t.Errorf("the child printed %q, want %q", got, want)
		}
		mustExit(t, c.Process)
	}
}

func TestSpawnStartsASession(t *testing.T) {
	c := spawn(t, "read x")
	sid, err := unix.Getsid(c.Pid())
	if sid != c.Pid() || err != nil {
		t.Errorf("session of process %d = %d, %v", c.Pid(), sid, err)
	}
	pgid, err := unix.Getpgid(c.Pid())
	if pgid != c.Pid() || err != nil {
		t.Errorf("process group of process %d = %d, %v", c.Pid(), pgid, err)
	}
}

func TestSpawnResetsSignals(t *testing.T) {
	const none = "0000000000000000"
	for _, name := range []string{"SigBlk", "SigIgn"} {
		if s := status(t, os.Getpid(), name); s != none {
			t.Skipf("the tests were started with %s: %s, which Go passes on", name, s)
		}
	}
	forks := map[string]func(*testing.T) int{"by fork": func(*testing.T) int { return -1 }, "into a cgroup": ownCgroup}
	for name, cgroup := range forks {
		t.Run(name, func(t *testing.T) {
			attr := &Attr{Path: "/bin/cat", Args: []string{"cat"}, CgroupFD: cgroup(t)}
			see := func(what, ignored string) {
				t.Helper()
				c := spawnAttr(t, attr)
				// None is caught any more: the kernel resets those
				for name, want := range map[string]string{"SigBlk": none, "SigIgn": ignored} {
					if s := status(t, c.Pid(), name); s != want {
						t.Errorf("%s: %s of the child = %s, want %s", what, name, s, want)
					}
				}
			}
			see("all are handled as usual", none)
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, unix.SIGUSR2)
			see("SIGUSR2 is caught", none)
			signal.Ignore(unix.SIGUSR2)
			defer func() { // Reset leaves it ignored
				signal.Notify(caught, unix.SIGUSR2)
				signal.Stop(caught)
			}()
			see("SIGUSR2 is ignored, which is passed on as by Go", "0000000000000800")
		})
	}
}

// ownCgroup opens the cgroup v2 that the tests run in, to spawn children in it. Without a writable
// one it skips the test.
func ownCgroup(t *testing.T) int {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		_, path, found := strings.Cut("\n"+string(own), "\n0::")
		if len(fields) < 3 || fields[2] != "cgroup2" || !found || !Probe().CloneIntoCgroup {
			continue
		}
		path, _, _ = strings.Cut(path, "\n")
		fd, err := unix.Open(filepath.Join(fields[1], path), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil || unix.Faccessat(fd, "cgroup.procs", unix.W_OK, 0) != nil {
			unix.Close(fd)
			continue
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	t.Skip("no cgroup to fork into")
	return -1
}

func TestSpawnPassesOnlyTheGivenDescriptors(t *testing.T) {
	// The caller of the tests may have left descriptors open.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Skip(err)
	}
	other, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r, w := pipe(t)
	c := spawnAttr(t, &Attr{
		Path: "/bin/sh", Args: []string{"sh", "-c", "echo ready; read x; echo >&5 $x"},
		Files: []int{-1, int(r.Fd()), int(w.Fd())}, CgroupFD: -1, // 3 stays closed
	})
	c.line(t)
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(c.Pid()) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{"0", "1", "2", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("descriptors of the child: %v, want %v", got, want)
	}
	// They are the right ones; and ours are unchanged.
	if _, err := c.in.WriteString("through five\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := r.Read(buf)
	if got := string(buf[:n]); got != "through five\n" || err != nil {
		t.Errorf("read from the child's descriptor 5: %q, %v", got, err)
	}
}

func TestSpawnDescriptorIsCloseOnExec(t *testing.T) {
	c := spawn(t, "read x")
	for _, p := range []*Process{c.Process, open(t, c.Pid())} {
		flags, err := unix.FcntlInt(uintptr(p.FD()), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("F_GETFD of a pidfd = %#x, %v, want FD_CLOEXEC", flags, err)
		}
	}
}

func TestSpawnFailureIsTheErrno(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	tests := []struct {
		name string
		attr Attr
		want error
	}{
		{"missing executable", Attr{Path: dir + "/missing"}, unix.ENOENT},
		{"no x bit", Attr{Path: plain}, unix.EACCES},
		{"a directory", Attr{Path: dir}, unix.EACCES},
		{"missing interpreter", Attr{Path: file("shebang", "#!"+dir+"/missing\n", 0o755)}, unix.ENOENT},
		{"not a program", Attr{Path: file("text", "hello\n", 0o755)}, unix.ENOEXEC},
		{"a path through a file", Attr{Path: plain + "/x"}, unix.ENOTDIR},
		{"missing directory", Attr{Path: "/bin/sh", Dir: dir + "/missing"}, unix.ENOENT},
		{"arguments too long", Attr{Path: "/bin/sh", Args: []string{"sh", strings.Repeat("x", 1<<18)}}, unix.E2BIG},
		{"a NUL in an argument", Attr{Path: "/bin/sh", Args: []string{"sh", "a\x00b"}}, unix.EINVAL},
		{"a closed descriptor", Attr{Path: "/bin/sh", Files: []int{1 << 20}}, unix.EBADF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := descriptors(t)
			tt.attr.CgroupFD = -1
			p, err := Spawn(&tt.attr)
			if p != nil || !errors.Is(err, tt.want) {
				t.Fatalf("Spawn(%s) = %v, %v, want %v", tt.attr.Path, p, err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "spawn "+tt.attr.Path+": ") {
				t.Errorf("error %q does not name the path", err)
			}
			if pid, ok, err := Peek(); ok || err != nil {
				t.Errorf("Peek() = %d, %v, %v: the failed child was not reaped", pid, ok, err)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors open, %d before", after, before)
			}
		})
	}
}

func TestSpawnAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	c := spawnAttr(t, &Attr{
		Path: "/bin/cat", Args: []string{"cat"}, CgroupFD: -1,
		Credential: &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{65531, 65532}},
	})
	for name, want := range map[string]string{
		"Uid": "65534\t65534\t65534\t65534", "Gid": "65533\t65533\t65533\t65533", "Groups": "65531 65532",
	} {
		if got := status(t, c.Pid(), name); got != want {
			t.Errorf("%s of the child = %q, want %q", name, got, want)
		}
	}
}

func TestSpawnIntoABadCgroup(t *testing.T) {
	if !Probe().CloneIntoCgroup {
		t.Skip("no CLONE_INTO_CGROUP")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := Spawn(&Attr{Path: "/bin/sh", CgroupFD: int(null.Fd())})
	if p != nil || !errors.Is(err, unix.EBADF) { // not a cgroup
		t.Errorf("Spawn() = %v, %v, want EBADF", p, err)
	}
}

// TestSpawnManySideBySide: of many children at once, each is reaped once, with its own status.
// Source: row 3 of the failure table.
func TestSpawnManySideBySide(t *testing.T) {
	const workers, each = 4, 25
	procs := make([]*Process, workers*each)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				p, err := Spawn(&Attr{Path: "/bin/sh", Args: []string{"sh", "-c", "exit " + strconv.Itoa(i)}, CgroupFD: -1})
				if err != nil {
					t.Error(err)
					return
				}
				procs[i] = p
			}
		})
	}
	wg.Wait()
	for i, p := range procs {
		if p == nil {
			continue
		}
		if e := mustExit(t, p); outcome(e) != (Exit{Known: true, Code: i}) {
			t.Errorf("child %d: %v", i, e)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if pid, ok, err := Peek(); ok || err != nil {
		t.Errorf("Peek() = %d, %v, %v after all were reaped", pid, ok, err)
	}
}

// descriptors returns the number of descriptors that this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestStartByTheClock: the start time of a child, determined by the clock, is that in /proc. If a
// clock tick ends during the spawn, it is read there.
func TestStartByTheClock(t *testing.T) {
	// On a busy machine some spawns may take a tick, but not each
	for n, known := 0, false; n < 30 || !known && !Portable; n++ {
		c := spawn(t, "read x")
		got, err := c.Identity()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := open(t, c.Pid()).Identity(); err != nil || got != want {
			t.Errorf("Identity() = %+v, by its pid %+v, %v", got, want, err)
		}
		known = known || c.start > 0
	}
}

// TestSpawnInUserNamespace: the program has all capabilities of a new user namespace, in which it
// is nobody.
func TestSpawnInUserNamespace(t *testing.T) {
	for name, cgroup := range map[string]int{"by fork": -1, "into a cgroup": ownCgroup(t)} {
		c := spawnAttr(t, &Attr{
			Path: "/bin/sh", Args: []string{"sh", "-c", "id -u; grep CapEff /proc/self/status; cat /proc/self/uid_map"},
			CgroupFD: cgroup, UserNamespace: true,
		})
		uid, rest, _ := strings.Cut(c.silent(t), "\n")
		_, set, _ := strings.Cut(strings.TrimSpace(rest), "\t")
		if caps, err := strconv.ParseUint(set, 16, 64); uid != "65534" || err != nil || caps&(1<<unix.CAP_SYS_ADMIN) == 0 {
			t.Errorf("%s: the child is user %s and has %s, want all capabilities", name, uid, rest)
		}
	}
}
