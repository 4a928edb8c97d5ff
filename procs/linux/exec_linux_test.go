package linux

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/codec"
	"superd/config/environ"
	"superd/internal/execshim"
	"superd/internal/passwd"
	"superd/internal/privilege"
	"superd/internal/rlimit"
	"superd/pidfd"
	"superd/procs/host"
	"superd/sandbox"
)

// init makes the test binary serve as exec shim, as superd does.
func init() {
	execshim.Run(nil)
	// The caller of the tests may have left descriptors open.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
}

// A starter starts programs as a worker does, without a loop.
type starter struct {
	kernel *Host
	spec   *host.SpawnSpec
}

func newStarter(t testing.TB, program *config.Program) *starter {
	t.Helper()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(null) })
	if program.Directory == "" {
		program.Directory = "/"
	}
	return &starter{
		kernel: testKernel(null),
		spec: &host.SpawnSpec{
			Name: "web", Program: program,
			Environment: environ.Inherited([]string{"PATH=/usr/bin:/bin", "HOME=/of/superd", "LANG=C"}),
			Own:         variables("SUPERD_NAME", "web"),
			Outputs:     []host.Outlet{{FIFO: filepath.Join(t.TempDir(), "fifo"), ReadFD: -1}},
		},
	}
}

// start starts the program. The FIFO stays for the next start.
func (s *starter) start(t testing.TB) (*pidfd.Process, error) {
	t.Helper()
	a := &attempt{slot: new(startQueue).newSlot(&start{})}
	made := host.Child{ReadFDs: []int{-1}, InputFD: -1}
	p, err := prepare(a, s.spec, &made, new(sandbox.Programs))
	if p != nil {
		defer p.close()
	}
	if read := made.ReadFDs[0]; read >= 0 {
		s.spec.Outputs[0].ReadFD = read
		t.Cleanup(func() { unix.Close(read) })
	}
	if err != nil {
		return nil, err
	}
	return s.kernel.execute(a, p, &pidfd.Attr{Files: p.files(s.kernel.null, p.outputs[0], p.outputs[0]), CgroupFD: -1})
}

// run runs the program to its end and returns its output and exit status.
func (s *starter) run(t *testing.T) (string, pidfd.Exit) {
	t.Helper()
	child, err := s.start(t)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	hung := time.AfterFunc(20*time.Second, func() { child.Signal(unix.SIGKILL) })
	defer hung.Stop()
	exit, err := child.Await()
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(s.spec.Outputs[0].ReadFD, buf)
		if n <= 0 || err != nil {
			return string(out), exit
		}
		out = append(out, buf[:n]...)
	}
}

func ptr[T any](v T) *T { return &v }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// needUser returns a user of the machine other than root.
func needUser(t *testing.T) string {
	t.Helper()
	needRoot(t)
	for _, name := range []string{"www-data", "daemon", "no process"} {
		if _, err := lookUpRunAs(name, nil, passwd.System()); err == nil {
			return name
		}
	}
	t.Skip("no user but root here")
	return ""
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestExecuteAsUser(t *testing.T) {
	user := needUser(t)
	id := func(option string) string {
		out, err := exec.Command("id", option, user).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	home, err := exec.Command("sh", "-c", "getent passwd "+user+" | cut -d: -f6,7").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := id("-u") + " " + id("-g") + " " + id("-G") + " " + strings.TrimSpace(string(home)) + " " + user + " " + user + " web\n"
	script := `echo "$(id -u) $(id -g) $(id -G) $HOME:$SHELL $USER $LOGNAME $SUPERD_NAME"`
	for name, program := range map[string]*config.Program{
		"by the fork":           {Settings: &config.Settings{}},
		"through a step":        {Settings: &config.Settings{Umask: ptr(uint32(0o22))}},
		"by number":             {Settings: &config.Settings{User: id("-u")}},
		"by number with a step": {Settings: &config.Settings{User: id("-u"), Limits: config.Limits{Rlimits: noCore}}},
	} {
		t.Run(name, func(t *testing.T) {
			if program.User == "" {
				program.User = user
			}
			program.Command, program.InheritEnvironment = shell(script), true
			if got, exit := newStarter(t, program).run(t); got != want || !exit.Success() {
				t.Errorf("it printed %q, %v, want %q", got, exit, want)
			}
		})
	}
	t.Run("variables", func(t *testing.T) {
		program := &config.Program{Command: shell(`echo "$HOME ${USER} $SHELL"`), Environment: map[string]string{"HOME": "/h/${USER}", "SHELL": "/s"}, Settings: &config.Settings{User: user}}
		if got, want := first(newStarter(t, program).run(t)), "/h/"+user+" "+user+" /s\n"; got != want {
			t.Errorf("it printed %q, want %q", got, want)
		}
	})
	t.Run("without user they stay superd's", func(t *testing.T) {
		program := &config.Program{Command: shell(`echo "$(id -u) $HOME ${USER:-none}"`), Settings: &config.Settings{InheritEnvironment: true}}
		if got, want := first(newStarter(t, program).run(t)), "0 /of/superd none\n"; got != want {
			t.Errorf("it printed %q, want %q", got, want)
		}
	})
}

var noCore = rlimit.Limits{{Resource: rlimit.Core}}

func files(n uint64) rlimit.Limits {
	return rlimit.Limits{{Resource: rlimit.NoFile, Soft: n, Hard: n}}
}

func first[A, B any](a A, _ B) A { return a }

func TestExecuteWithSupplementaryGroups(t *testing.T) {
	user := needUser(t)
	own := strings.Fields(first(newStarter(t, &config.Program{Command: shell("id -g"), Settings: &config.Settings{User: user}}).run(t)))[0]
	for _, limits := range []config.Limits{{}, {Rlimits: noCore}} {
		for _, tt := range []struct {
			groups []string
			want   string
		}{
			{[]string{}, own},
			{[]string{"12345", "root"}, own + " 12345 0"},
		} {
			program := &config.Program{Command: shell("id -G"), Settings: &config.Settings{User: user, SupplementaryGroups: tt.groups, Limits: limits}}
			// id prints the user's own group first, then the others in the kernel's order: by
			// number.
			got := strings.Fields(first(newStarter(t, program).run(t)))
			want := strings.Fields(tt.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("groups with %q = %v, want %v", tt.groups, got, want)
			}
		}
	}
	program := &config.Program{Command: shell("echo $(id -u) $(id -g) $(id -G)"), Settings: &config.Settings{SupplementaryGroups: []string{"12345"}}}
	if got, want := first(newStarter(t, program).run(t)), "0 0 0 12345\n"; got != want {
		t.Errorf("superd's user with another group: %q, want %q", got, want)
	}
}

// TestExecuteWithLimits: limits and umask hold from the program's first instruction.
func TestExecuteWithLimits(t *testing.T) {
	show := shell("umask; ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc")
	var now, core unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &now), unix.Getrlimit(unix.RLIMIT_CORE, &core)); err != nil {
		t.Fatal(err)
	}
	inherited := strings.Fields(first(newStarter(t, &config.Program{Command: show, Settings: &config.Settings{}}).run(t)))
	tests := []struct {
		name    string
		program config.Program
		want    []string // "": as inherited
	}{
		{"umask", config.Program{Settings: &config.Settings{Umask: ptr(uint32(0o077))}}, []string{"0077", "", "", "", ""}},
		{"nofile", config.Program{Settings: &config.Settings{Limits: config.Limits{Rlimits: files(77)}}}, []string{"", "77", "77", "", ""}},
		{"few files", config.Program{Settings: &config.Settings{Limits: config.Limits{Rlimits: files(3)}}}, []string{"", "3", "3", "", ""}},
		{"core", config.Program{Settings: &config.Settings{Limits: config.Limits{Rlimits: noCore}}}, []string{"", "", "", "0", "0"}},
		{"all", config.Program{Settings: &config.Settings{Umask: ptr(uint32(0)), Limits: config.Limits{Rlimits: append(slices.Clone(noCore), files(100)...)}}}, []string{"0000", "100", "100", "0", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.program.Command = show
			if tt.name == "few files" {
				// A shell saves descriptors that it redirects, so it needs more. Three are enough
				// to execute and to print.
				tt.program.Command = []string{"cat", "/dev/null"}
				if got, exit := newStarter(t, &tt.program).run(t); exit.Success() || !strings.Contains(got, "Too many open files") && !strings.Contains(got, "libc.so") {
					t.Errorf("cat with 3 descriptors: %q, %v", got, exit)
				}
				return
			}
			got := strings.Fields(first(newStarter(t, &tt.program).run(t)))
			for i, want := range tt.want {
				if want == "" {
					want = inherited[i]
				}
				if i >= len(got) || got[i] != want {
					t.Fatalf("limits = %v, want %v over %v", got, tt.want, inherited)
				}
			}
		})
	}
	t.Run("each limit", func(t *testing.T) {
		if underRace {
			t.Skip("the race detector needs more memory")
		}
		raised := uint64(3)
		if privilege.SetLimit(rlimit.Nice, raised) != nil {
			raised = 0 // the hard limit that systems have
		}
		limits := rlimit.Limits{
			{Resource: rlimit.CPUTime, Soft: 100, Hard: 200},
			{Resource: rlimit.FSize, Soft: 4096, Hard: rlimit.Infinity},
			{Resource: rlimit.Data, Soft: 8 << 20, Hard: 8 << 20},
			{Resource: rlimit.Stack, Soft: 1 << 20, Hard: 1 << 20},
			{Resource: rlimit.NProc, Soft: 5000, Hard: 6000},
			{Resource: rlimit.MemLock, Soft: 65536, Hard: 65536},
			{Resource: rlimit.AS, Soft: 32 << 20, Hard: 64 << 20},
			{Resource: rlimit.SigPending, Soft: 10, Hard: 10},
			{Resource: rlimit.MsgQueue, Soft: 10, Hard: 10},
			{Resource: rlimit.Nice, Soft: raised, Hard: raised},
			{Resource: rlimit.RTPrio, Soft: raised, Hard: raised},
			{Resource: rlimit.RTTime, Soft: 1000, Hard: 2000},
		}
		// A large environment takes memory of the exec shim, which has the limits, too.
		large := map[string]string{}
		for i := range 5 {
			large["LARGE"+strconv.Itoa(i)] = strings.Repeat("x", 40_000)
		}
		for _, user := range []string{"", needUser(t)} {
			program := &config.Program{Command: []string{"cat", "/proc/self/limits"}, Environment: large, Settings: &config.Settings{User: user, Limits: config.Limits{Rlimits: limits}}}
			got, exit := newStarter(t, program).run(t)
			for _, want := range []string{
				"Max cpu time 100 200", "Max file size 4096 unlimited", "Max data size 8388608 8388608", "Max stack size 1048576 1048576", "Max processes 5000 6000",
				"Max locked memory 65536 65536", "Max address space 33554432 67108864", "Max pending signals 10 10", "Max msgqueue size 10 10",
				fmt.Sprintf("Max nice priority %d %[1]d", raised), fmt.Sprintf("Max realtime priority %d %[1]d", raised), "Max realtime timeout 1000 2000",
			} {
				if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
					t.Errorf("as %q, %v: no %q in\n%s", user, exit, want, got)
				}
			}
		}
	})
	t.Run("root raises before it changes user", func(t *testing.T) {
		if err := privilege.SetLimit(rlimit.NoFile, now.Max+5); err != nil {
			t.Skip(err)
		}
		program := &config.Program{Command: shell("id -u; ulimit -n"), Settings: &config.Settings{User: needUser(t), Limits: config.Limits{Rlimits: files(now.Max + 5)}}}
		got := strings.Fields(first(newStarter(t, program).run(t)))
		if want := strconv.FormatUint(now.Max+5, 10); len(got) != 2 || got[0] == "0" || got[1] != want {
			t.Errorf("user and limit = %v, want not 0, and %s", got, want)
		}
	})
}

// attributes returns a program with attributes.
func attributes(a config.Attributes) config.Program {
	return config.Program{Settings: &config.Settings{Attributes: a}}
}

// TestExecuteWithAttributes: attributes hold from the program's first instruction, also for a
// program of another user, and not for superd.
func TestExecuteWithAttributes(t *testing.T) {
	// nice value, real-time priority, policy
	show := shell("set -- $(cat /proc/self/stat); echo $${19} $${40} $${41}; ionice; grep Cpus_allowed_list /proc/self/status; cat /proc/self/oom_score_adj")
	before := first(newStarter(t, &config.Program{Command: show, Settings: &config.Settings{}}).run(t))
	for _, tt := range []struct {
		name string
		a    config.Attributes
		want string // in its output, by words
	}{
		{"nice", config.Attributes{Nice: ptr(7)}, "7 0 0"},
		{"nice of less", config.Attributes{Nice: ptr(-3)}, "-3 0 0"},
		{"ionice", config.Attributes{IONice: &codec.IONice{Class: codec.IOBestEffort, Level: 6}}, "best-effort: prio 6"},
		{"ionice idle", config.Attributes{IONice: &codec.IONice{Class: codec.IOIdle}}, "idle"},
		{"a CPU", config.Attributes{CPUAffinity: []int{0}}, "Cpus_allowed_list: 0"},
		{"batch", config.Attributes{Nice: ptr(4), Scheduling: &codec.Scheduling{Policy: codec.PolicyBatch}}, "4 0 3"},
		{"round robin", config.Attributes{Nice: ptr(4), Scheduling: &codec.Scheduling{Policy: codec.PolicyRR, Priority: 5}}, "4 5 2"},
		{"oom_score_adj", config.Attributes{OOMScoreAdj: ptr(345)}, "345"},
	} {
		for _, user := range []string{"", needUser(t)} {
			t.Run(tt.name+" "+user, func(t *testing.T) {
				program := attributes(tt.a)
				program.Command, program.User = show, user
				if _, err := program.Attributes.Check(privilege.Attributes{}); err != nil {
					t.Skip(err)
				}
				got, exit := newStarter(t, &program).run(t)
				if text := " " + strings.Join(strings.Fields(got), " ") + " "; !strings.Contains(text, " "+tt.want+" ") || !exit.Success() {
					t.Errorf("%v: it printed\n%s\nwant %s over\n%s", exit, got, tt.want, before)
				}
			})
		}
	}
	if after := first(newStarter(t, &config.Program{Command: show, Settings: &config.Settings{}}).run(t)); after != before {
		t.Errorf("a program without attributes printed\n%s\nbefore\n%s", after, before)
	}
}

// TestExecuteKeepsTheSoftLimit: neither the program nor the exec shim inherits the limit that Go
// has raised for itself.
func TestExecuteKeepsTheSoftLimit(t *testing.T) {
	cmd := exec.Command("sh", "-c", `ulimit -Sn 123 && exec "$0" -test.run='^TestShowSoftLimit$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "SHOW_SOFT_LIMIT=1")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "limit: 123\n") != 2 {
		t.Errorf("it printed %s, %v, want twice 123", out, err)
	}
}

// TestShowSoftLimit runs as a child of TestExecuteKeepsTheSoftLimit.
func TestShowSoftLimit(t *testing.T) {
	if os.Getenv("SHOW_SOFT_LIMIT") == "" {
		t.Skip("not started by its test")
	}
	inherited, err := pidfd.InheritedOpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, umask := range []*uint32{nil, ptr(uint32(0o22))} {
		s := newStarter(t, &config.Program{Command: shell("ulimit -Sn"), Settings: &config.Settings{Umask: umask}})
		s.kernel.openFiles = &inherited
		got, _ := s.run(t)
		fmt.Print("limit: ", got)
	}
}

func TestExecuteThroughStepChangesNothingElse(t *testing.T) {
	dir := openTemp(t)
	show := shell(`echo "$0 $# $*"; pwd; ls /proc/self/fd; grep -E '^(Sig|NSsid|NSpgid|Threads|OOM|Umask)' /proc/self/status; cat /proc/self/limits /proc/self/oom_score_adj; ps -o sid= -p $$$$ | grep -q $$$$ && echo leader`)
	program := config.Program{
		Command:     append(show, "zero", "one", "", "two words"),
		Environment: map[string]string{"GOMEMLIMIT": "nonsense", "GODEBUG": "inittrace=1", "GOMAXPROCS": "1", "superd-exec:GOGC": "x", "EMPTY": ""},
		Settings: &config.Settings{
			Directory:          dir,
			InheritEnvironment: true,
		},
	}
	want, _ := newStarter(t, &program).run(t)
	mask := unix.Umask(0o22)
	unix.Umask(mask)
	program.Umask = ptr(uint32(mask))
	got, _ := newStarter(t, &program).run(t)
	// Without namespace pids and the number of the user's queued signals, which differ
	strip := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			if !strings.HasPrefix(line, "NS") && !strings.HasPrefix(line, "SigQ") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	if strip(got) != strip(want) {
		t.Errorf("through a step:\n%s\nwithout:\n%s", got, want)
	}
	if !strings.HasPrefix(got, "zero 3 one  two words\n"+dir+"\n0\n1\n2\n3\n") || !strings.HasSuffix(got, "leader\n") {
		t.Errorf("it printed\n%s", got)
	}
	program.Command = []string{"env"}
	got, _ = newStarter(t, &program).run(t)
	if want := "EMPTY=\nGODEBUG=inittrace=1\nGOMAXPROCS=1\nGOMEMLIMIT=nonsense\nHOME=/of/superd\nLANG=C\nPATH=/usr/bin:/bin\nsuperd-exec:GOGC=x\nSUPERD_NAME=web\n"; got != want {
		t.Errorf("environment:\n%s\nwant\n%s", got, want)
	}
}

func TestExecuteSetsOOMScore(t *testing.T) {
	s := newStarter(t, &config.Program{Command: []string{"cat", "/proc/self/oom_score_adj"}, Settings: &config.Settings{}})
	s.kernel.oomScoreAdj = ptr(321) // raising it needs no privilege
	if got, _ := s.run(t); got != "321\n" {
		t.Errorf("oom_score_adj = %q, want 321", got)
	}
}

func TestExecuteGivesOOMScoreBack(t *testing.T) {
	needRoot(t)
	const path = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("-100"), 0); err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(path, bytes.TrimSpace(before), 0)
	s := newStarter(t, &config.Program{Command: []string{"cat", path}, Settings: &config.Settings{}})
	if got, _ := s.run(t); got != "-100\n" {
		t.Fatalf("oom_score_adj by the fork = %q", got)
	}
	if s.kernel.oomScoreAdj, err = ownOOMScore(); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.run(t); got != "0\n" {
		t.Errorf("oom_score_adj = %q, want 0", got)
	}
}

// TestExecuteOutputBelongsToUser: the program may reopen its output, whatever user the last run
// had.
func TestExecuteOutputBelongsToUser(t *testing.T) {
	user := needUser(t)
	s := newStarter(t, &config.Program{Command: shell("echo again >/dev/stdout && echo too >/dev/stderr"), Settings: &config.Settings{}})
	for i, as := range []string{user, "", user, "root", user} {
		s.spec.Program.User = as
		if got, exit := s.run(t); got != "again\ntoo\n" || !exit.Success() {
			t.Fatalf("start %d, as %q: it printed %q, %v", i, as, got, exit)
		}
	}
	if out, err := exec.Command("stat", "-c", "%U %a", s.spec.Outputs[0].FIFO).Output(); string(out) != user+" 600\n" {
		t.Errorf("owner and mode = %s, %v", out, err)
	}
}

// TestExecutePassesOnlyTheStandardDescriptors: only descriptors meant for the program are open in
// it, whatever numbers superd's have.
func TestExecutePassesOnlyTheStandardDescriptors(t *testing.T) {
	for _, umask := range []*uint32{nil, ptr(uint32(0))} {
		var held []int
		for range 3 {
			s := newStarter(t, &config.Program{Command: []string{"ls", "/proc/self/fd"}, Settings: &config.Settings{Umask: umask}})
			if got, _ := s.run(t); got != "0\n1\n2\n3\n" { // 3 is opened by ls
				t.Errorf("descriptors of the program = %q", got)
			}
			for range 2 {
				fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, fd)
			}
		}
		for _, fd := range held {
			unix.Close(fd)
		}
	}
}

func BenchmarkExecute(b *testing.B) {
	for name, program := range map[string]config.Program{
		"fork": {Settings: &config.Settings{}}, "step": {Settings: &config.Settings{Umask: ptr(uint32(0o22))}},
	} {
		b.Run(name, func(b *testing.B) {
			program.Command = []string{"/bin/true"}
			s := newStarter(b, &program)
			for b.Loop() {
				child, err := s.start(b)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := child.Await(); err != nil {
					b.Fatal(err)
				}
				child.Close()
			}
		})
	}
}

// testKernel returns a kernel with the parts that a start needs.
func testKernel(null int) *Host {
	k := &Host{null: null}
	k.gate.init()
	return k
}

// TestStepOutlivesSuperd: an exec shim whose superd is gone still executes the program.
func TestStepOutlivesSuperd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	step := &execshim.Step{Path: "/bin/echo", Args: []string{"echo", "ran"}, Dir: "/"}
	cmd := exec.CommandContext(t.Context(), execshim.Binary)
	cmd.Args, cmd.Env = step.Command()
	cmd.ExtraFiles = []*os.File{w} // execshim.ReportFD
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ran\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
}

// variables returns variables from names and values in turn.
func variables(namesAndValues ...string) (v environ.Variables) {
	for i := 0; i < len(namesAndValues); i += 2 {
		v.Set(namesAndValues[i], namesAndValues[i+1])
	}
	return v
}
