package enforce

import (
	"errors"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// run returns what a filter does with a call, by the rules of classic BPF.
func run(t *testing.T, program []unix.SockFilter, architecture, number uint32) uint32 {
	t.Helper()
	var a uint32
	for at := 0; at < len(program); at++ {
		in := program[at]
		jump := func(taken bool) {
			if taken {
				at += int(in.Jt)
			} else {
				at += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = map[uint32]uint32{numberOffset: number, archOffset: architecture}[in.K]
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d has the code %#x", at, in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestAssemble(t *testing.T) {
	const allowed, refused, unknown = unix.SECCOMP_RET_ALLOW, 42, 100_000
	allow := &sandbox.Filter{Calls: []string{"execve", "read", "of_another_machine"}}
	deny := &sandbox.Filter{Calls: []string{"mount", "read"}, Refuse: true}
	for _, info := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386, arch.ARM} {
		id := uint32(info.ID)
		call := func(name string) uint32 { return uint32(info.SyscallNames[name]) }
		tests := []struct {
			name         string
			filter       *sandbox.Filter
			architecture uint32
			number, want uint32
		}{
			{"an allowed call", allow, id, call("execve"), allowed},
			{"the last allowed call", allow, id, call("read"), allowed},
			{"a known call", allow, id, call("mount"), refused},
			{"a call that is newer than the table", allow, id, unknown, notThere},
			{"an allowed number of another architecture", allow, id + 1, call("read"), notThere},
			{"a denied call", deny, id, call("mount"), refused},
			{"any other call", deny, id, call("write"), allowed},
			{"a new call", deny, id, unknown, allowed},
			{"any number of another architecture", deny, id + 1, call("write"), notThere},
		}
		if info == arch.X86_64 {
			x32 := uint32(arch.X32.SeccompMask) | call("write")
			tests = append(tests, tests[0])
			tests[len(tests)-1].name, tests[len(tests)-1].filter = "an x32 call", deny
			tests[len(tests)-1].number, tests[len(tests)-1].want = x32, notThere
		}
		for _, tt := range tests {
			if got := run(t, assemble(tt.filter, info, refused), tt.architecture, tt.number); got != tt.want {
				t.Errorf("%s, %s: %#x, want %#x", info.Name, tt.name, got, tt.want)
			}
		}
	}
}

// TestLongestFilter: the kernel takes at most 4096 instructions.
func TestLongestFilter(t *testing.T) {
	all := (&sandbox.Syscalls{Allow: []string{"@known"}}).Filter()
	for _, info := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386, arch.ARM} {
		if n := len(assemble(all, info, 0)); n > 4096 || n < 500 {
			t.Errorf("%s: %d instructions", info.Name, n)
		}
	}
}

// TestActions: each error that a configuration may name has its action.
func TestActions(t *testing.T) {
	for name, action := range actions {
		if name != "kill" && action&^0xffff != unix.SECCOMP_RET_ERRNO {
			t.Errorf("%s is %#x", name, action)
		}
	}
	s := &Sandbox{plan: &sandbox.Plan{Syscalls: &sandbox.Syscalls{Deny: []string{"read"}, Errno: "ESOMETHING"}}}
	if err := s.makeFilter(); err != unix.EINVAL {
		t.Errorf("a filter with an unknown error: %v", err)
	}
}

// TestLoadFilterFails: without its filter no program begins, also where the sandbox may be
// incomplete.
func TestLoadFilterFails(t *testing.T) {
	s := &Sandbox{plan: &sandbox.Plan{BestEffort: true}, filter: []unix.SockFilter{{Code: 0xffff}}}
	err := s.LoadFilter()
	if f, ok := errors.AsType[*sandbox.Failure](err); !ok || f.Key != "syscalls" || f.Errno == 0 {
		t.Errorf("LoadFilter of what is no filter: %v, want a failure of syscalls", err)
	}
	if len(s.Warnings()) > 0 {
		t.Errorf("it is a warning: %v", s.Warnings())
	}
}
