package pidfd

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// noPid is above the largest possible pid (PID_MAX_LIMIT, 2^22).
const noPid = 1 << 23

func TestOpenNoProcess(t *testing.T) {
	p, err := Open(noPid)
	if p != nil || !errors.Is(err, ErrGone) || !errors.Is(err, unix.ESRCH) {
		t.Errorf("Open(%d) = %v, %v, want ErrGone", noPid, p, err)
	}
	for _, pid := range []int{0, -1} {
		if p, err := Open(pid); p != nil || !errors.Is(err, unix.EINVAL) {
			t.Errorf("Open(%d) = %v, %v, want EINVAL", pid, p, err)
		}
	}
}

func TestSignal(t *testing.T) {
	c := spawn(t, "read x")
	if err := c.Signal(0); err != nil {
		t.Error(err)
	}
	if err := c.Signal(65); !errors.Is(err, unix.EINVAL) {
		t.Errorf("Signal(65) = %v, want EINVAL", err)
	}
	if err := c.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, c.Process, unix.POLLIN)
	if err := c.Signal(unix.SIGTERM); err != nil {
		t.Errorf("Signal() of a zombie = %v, want nil", err)
	}
	if e := mustExit(t, c.Process); outcome(e) != killed(unix.SIGTERM) {
		t.Errorf("Wait() = %v, want killed by SIGTERM", e)
	}
	if err := c.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) || !errors.Is(err, unix.ESRCH) {
		t.Errorf("Signal() after the reaping = %v, want ErrGone", err)
	}
}

// groupSignals are both forks to signal a group, whichever this kernel supports.
var groupSignals = map[string]func(*Process, unix.Signal) error{
	"SignalGroup": (*Process).SignalGroup, "killGroup": (*Process).killGroup,
}

func TestSignalGroupReachesGrandchildren(t *testing.T) {
	for name, signal := range groupSignals {
		t.Run(name, func(t *testing.T) {
			c := spawn(t, "sleep 1000 & echo up; wait")
			c.line(t)
			if err := signal(c.Process, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.silent(t) // so the grandchild is gone, too
			if e := mustExit(t, c.Process); outcome(e) != killed(unix.SIGKILL) {
				t.Errorf("Wait() = %v, want killed by SIGKILL", e)
			}
		})
	}
}

// TestSignalGroupOfAZombie: a zombie leader still holds its number, so its group can be signalled
// by either means.
func TestSignalGroupOfAZombie(t *testing.T) {
	for name, signal := range groupSignals {
		t.Run(name, func(t *testing.T) {
			c := spawn(t, "sleep 1000 & exit 4")
			await(t, c.Process, unix.POLLIN)
			if err := signal(c.Process, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.silent(t)
			if e := mustExit(t, c.Process); outcome(e) != (Exit{Known: true, Code: 4}) {
				t.Errorf("Wait() = %v, want exit status 4", e)
			}
		})
	}
}

func TestSignalGroupAfterTheReaping(t *testing.T) {
	becomeSubreaper(t)
	c := spawn(t, "sleep 1000 & echo $!")
	child := open(t, c.number(t))
	t.Cleanup(func() {
		child.Signal(unix.SIGKILL)
		child.Wait()
	})
	mustExit(t, c.Process)
	if err := c.killGroup(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("killGroup() = %v, want ESRCH: the number may be another's", err)
	}
	if err := child.Signal(0); err != nil {
		t.Fatalf("the child did not survive: %v", err)
	}
	if !Probe().GroupSignal {
		if err := c.SignalGroup(unix.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("SignalGroup() = %v, want ErrGone", err)
		}
		return
	}
	if err := c.SignalGroup(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := mustExit(t, child); outcome(e) != killed(unix.SIGKILL) {
		t.Errorf("the child ended by %v, want killed by SIGKILL", e)
	}
	if err := c.SignalGroup(unix.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("SignalGroup() of an empty group = %v, want ErrGone", err)
	}
}

// TestKillGroupRefusesForeigners: the pid of a process that is not our child may be reused at any
// time.
func TestKillGroupRefusesForeigners(t *testing.T) {
	c := spawn(t, "sleep 1000 & echo $!; wait")
	p := open(t, c.number(t))
	if err := p.killGroup(0); !errors.Is(err, unix.ECHILD) {
		t.Errorf("killGroup() of a grandchild = %v, want ECHILD", err)
	}
	if err := open(t, 1).killGroup(0); !errors.Is(err, unix.ECHILD) {
		t.Errorf("killGroup() of process 1 = %v, want ECHILD", err)
	}
}

func TestIdentity(t *testing.T) {
	c := spawn(t, "read x")
	first, err := c.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if first.Pid != c.Pid() || first.Start == 0 || (first.Inode != 0) != Probe().Pidfs {
		t.Errorf("Identity() = %+v of process %d, pidfs %v", first, c.Pid(), Probe().Pidfs)
	}
	second, err := open(t, c.Pid()).Identity()
	if err != nil || second != first {
		t.Errorf("Identity() of the same process = %+v, %v, want %+v", second, err, first)
	}
	other, err := spawn(t, "read x").Identity()
	if err != nil || other == first || other.Start < first.Start {
		t.Errorf("Identity() of a later process = %+v, %v, first %+v", other, err, first)
	}
	c.in.Close()
	await(t, c.Process, unix.POLLIN)
	if zombie, err := c.Identity(); err != nil || zombie != first {
		t.Errorf("Identity() of the zombie = %+v, %v, want %+v", zombie, err, first)
	}
	mustExit(t, c.Process)
	if gone, err := c.Identity(); !errors.Is(err, ErrGone) {
		t.Errorf("Identity() after the reaping = %+v, %v, want ErrGone", gone, err)
	}
}

// TestIdentityOfAReusedPid simulates a reused pid by a Process with the pid of another: what is
// read by pid belongs to the other, and only the pidfd shows that.
func TestIdentityOfAReusedPid(t *testing.T) {
	old := spawn(t, "exit 0")
	mustExit(t, old.Process)
	reused := &Process{pid: int32(os.Getpid()), fd: int32(old.FD())}
	if id, err := reused.Identity(); !errors.Is(err, ErrGone) {
		t.Errorf("Identity() = %+v, %v, want ErrGone", id, err)
	}
}

func TestIdentityOfAnotherUsersProcess(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may signal everybody")
	}
	if id, err := open(t, 1).Identity(); err != nil || id.Pid != 1 {
		t.Errorf("Identity() = %+v, %v", id, err)
	}
}

// TestIdentityIgnoresTheCommandName: Identity is right for a process with a misleading command
// name.
func TestIdentityIgnoresTheCommandName(t *testing.T) {
	c := spawn(t, "read x; printf ') R 1 (' > /proc/$$/comm; echo named; read x")
	before, err := c.Identity()
	if err != nil {
		t.Fatal(err)
	}
	c.in.WriteString("\n")
	c.line(t)
	if comm, err := os.ReadFile("/proc/" + strconv.Itoa(c.Pid()) + "/comm"); string(comm) != ") R 1 (\n" {
		t.Fatalf("command name %q, %v", comm, err)
	}
	if after, err := c.Identity(); err != nil || after != before {
		t.Errorf("Identity() = %+v, %v, want %+v", after, err, before)
	}
}

func TestClose(t *testing.T) {
	c := spawn(t, "exit 3")
	mustExit(t, c.Process)
	for range 2 {
		if err := c.Close(); err != nil || c.FD() != -1 {
			t.Errorf("Close() = %v, FD() = %d, want nil, -1", err, c.FD())
		}
	}
	if e, ok, err := c.Wait(); !ok || err != nil || e.Code != 3 {
		t.Errorf("Wait() after Close() = %v, %v, %v, want the earlier result", e, ok, err)
	}
	if err := c.Signal(unix.SIGTERM); !errors.Is(err, unix.EBADF) {
		t.Errorf("Signal() after Close() = %v, want EBADF", err)
	}
}

// TestIdentityWithoutADescriptor: what the pidfd itself shows needs no further descriptor.
func TestIdentityWithoutADescriptor(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want, err := p.Identity()
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	got, err := p.Identity()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err == nil || got.Pid != want.Pid || got.Inode != want.Inode {
		t.Errorf("Identity() = %+v, %v, want pid and inode of %+v", got, err, want)
	}
}
