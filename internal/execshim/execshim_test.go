package execshim

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"superd/internal/rlimit"
	"superd/sandbox"
)

func ptr[T any](v T) *T { return &v }

// TestCommandIsReadBack: parse reads back what Command writes, in any combination.
func TestCommandIsReadBack(t *testing.T) {
	for name, step := range map[string]Step{
		"nothing":             {},
		"umask":               {Umask: ptr(uint32(0o027))},
		"zeros":               {Umask: ptr(uint32(0)), Attributes: Attributes{Limits: []rlimit.Limit{{}}, OOMScoreAdj: ptr(0), Nice: ptr(0), IOPriority: ptr(0), CPUs: []int{0}, Scheduling: &Scheduling{}}, Credential: &syscall.Credential{}},
		"all":                 {Umask: ptr(uint32(0o777)), Attributes: Attributes{Limits: []rlimit.Limit{{Resource: rlimit.Core, Soft: 1 << 62, Hard: rlimit.Infinity}, {Resource: rlimit.NoFile, Soft: 1, Hard: 2}}, OOMScoreAdj: ptr(-999), Nice: ptr(-20), IOPriority: ptr(3 << 13), CPUs: []int{0, 5, 900}, Scheduling: &Scheduling{1, 50}}, Credential: &syscall.Credential{Uid: 1<<32 - 2, Gid: 5, Groups: []uint32{5, 1<<32 - 2}}},
		"group":               {Credential: &syscall.Credential{Uid: 1, Gid: 2, Groups: []uint32{3}}},
		"a strange directory": {Umask: ptr(uint32(0))},
		"descriptors":         {ReadyFD: 9, Sockets: 4},
		"a sandbox":           {Sandbox: []string{"path=/a, b=c", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			step.Dir, step.Path = "/a, b=c", "/bin/a b"
			step.Args = []string{"", "umask=1", "two words"}
			step.Env = []string{"A=b", "GOGC=5", "GODEBUG=x", "GO", Name + ":GOGC=7", "EMPTY="}
			args, env := step.Command()
			for _, variable := range env {
				if len(variable) > 1 && variable[:2] == "GO" && !slices.Contains(ownEnv, variable) {
					t.Errorf("the runtime sees %s", variable)
				}
			}
			got, ok := parse(args, env)
			if !ok || !reflect.DeepEqual(*got, step) {
				t.Errorf("parse(%q) = %+v, %v, want %+v", args, got, ok, step)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	if step, ok := parse([]string{Name, "", "", "/", "/bin/true"}, nil); ok {
		t.Errorf("a command without arguments is accepted: %+v", step)
	}
	for _, settings := range []string{"umask", "umask=8", "gid=1", "group=1", "new=1", "cpu=many", ",", "nice=1,", "soft=1", "priority=1", "limit=5", "limit=99"} {
		if step, ok := parse([]string{Name, settings, "", "/", "/bin/true", "true"}, nil); ok {
			t.Errorf("parse(%q) = %+v", settings, step)
		}
	}
}

func TestResult(t *testing.T) {
	failed := &Error{Stage: StageDir, Errno: syscall.EACCES}
	tests := []struct {
		name   string
		report string
		want   error
	}{
		{"executed", atExec, nil},
		{"failed before", failed.report(), failed},
		{"failed at the execution", atExec + failed.report(), failed},
		{"died", "", ErrDied},
		{"died while it wrote", "7", ErrDied},
		{"an unknown stage", "31 13", ErrDied},
		{"a sandbox that died while it wrote", fmt.Sprintf("%d 13 syscalls\x00", StageSandbox), ErrDied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := Result([]byte(tt.report))
			want, isStage := errors.AsType[*Error](tt.want)
			if e, ok := errors.AsType[*Error](got); ok != isStage || ok && *e != *want || !isStage && !errors.Is(got, tt.want) {
				t.Errorf("Result(%q) = %v, want %v", tt.report, got, tt.want)
			}
		})
	}
}

// TestSandboxIsReported: failures and warnings of a sandbox are read back with their key.
func TestSandboxIsReported(t *testing.T) {
	odd := sandbox.Failure{Key: "read_only", Object: "/a \n?!b", Errno: syscall.ENOENT, Rights: sandbox.RightsOfRoot, OpenRefused: true}
	other := sandbox.Failure{Key: "syscalls", Errno: syscall.EACCES}
	lines := reportWarnings([]sandbox.Failure{odd, other})
	want := []sandbox.Failure{odd, other}
	warnings, err := Result([]byte(lines + atExec))
	if err != nil || !reflect.DeepEqual(warnings, want) {
		t.Errorf("Result = %+v, %v, want %+v", warnings, err, want)
	}
	for _, before := range []string{"", atExec} {
		report := lines + before + failed(StageSandbox, &odd).report()
		warnings, err := Result([]byte(report))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Sandbox == nil || *e.Sandbox != odd || !reflect.DeepEqual(warnings, want) {
			t.Errorf("Result(%q) = %+v, %v, want %+v", report, warnings, err, odd)
		}
	}
}
