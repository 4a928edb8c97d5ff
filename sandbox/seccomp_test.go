package sandbox

import (
	"strings"
	"testing"
)

// returned returns what a filter does with a call, by the rules of classic BPF.
func returned(t *testing.T, program []Instruction, architecture, number uint32, arguments ...uint32) uint32 {
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
		case codeLoad:
			switch in.K {
			case offsetNumber:
				a = number
			case offsetArch:
				a = architecture
			default:
				a = arguments[(in.K-16)/8]
			}
		case codeAnd:
			a &= in.K
		case codeIsSame:
			jump(a == in.K)
		case codeIsFrom:
			jump(a >= in.K)
		case codeJump:
			at += int(in.K)
		case codeReturn:
			return in.K
		default:
			t.Fatalf("instruction %d has the code %#x", at, in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

var architectures = []string{"386", "amd64", "arm", "arm64"}

// numbers returns the numbers of all calls of a machine, by name.
func numbers(m *machine) map[string]uint32 {
	all := map[string]uint32{}
	for name, number := range m.calls() {
		all[name] = number
	}
	return all
}

func TestNumbers(t *testing.T) {
	for architecture, want := range map[string][3]uint32{
		"386": {3, 11, 462}, "amd64": {0, 59, 462}, "arm": {3, 11, 462}, "arm64": {63, 221, 462},
	} {
		all := numbers(machineOf(architecture))
		if got := [3]uint32{all["read"], all["execve"], all["mseal"]}; got != want || len(all) < 300 {
			t.Errorf("%s: read, execve and mseal of %d calls are %d, want %d", architecture, len(all), got, want)
		}
	}
	if p := (&Filter{}).Program("s390x"); p == nil || len(p) > 0 {
		t.Errorf("a filter without numbers: %v", p)
	}
}

func TestProgram(t *testing.T) {
	const refused, unknown = returnErrno | 1, 100_000
	allow := &Filter{Calls: []string{"execve", "of_another_machine", "read"}, Errno: "EPERM"}
	deny := &Filter{Calls: []string{"mount", "read"}, Refuse: true, Errno: "EPERM"}
	for _, architecture := range architectures {
		m := machineOf(architecture)
		call := numbers(m)
		tests := []struct {
			name         string
			filter       *Filter
			architecture uint32
			number, want uint32
		}{
			{"an allowed call", allow, m.audit, call["execve"], returnAllow},
			{"the last allowed call", allow, m.audit, call["read"], returnAllow},
			{"a known call", allow, m.audit, call["mount"], refused},
			{"a call that is newer than the table", allow, m.audit, unknown, notThere},
			{"an allowed number of another architecture", allow, m.audit + 1, call["read"], notThere},
			{"a denied call", deny, m.audit, call["mount"], refused},
			{"any other call", deny, m.audit, call["write"], returnAllow},
			{"a new call", deny, m.audit, unknown, returnAllow},
			{"any number of another architecture", deny, m.audit + 1, call["write"], notThere},
		}
		if architecture == "amd64" {
			tests = append(tests, tests[0])
			tests[len(tests)-1].name, tests[len(tests)-1].filter = "an x32 call", deny
			tests[len(tests)-1].number, tests[len(tests)-1].want = firstX32|call["write"], notThere
		}
		for _, tt := range tests {
			if got := returned(t, tt.filter.Program(architecture), tt.architecture, tt.number); got != tt.want {
				t.Errorf("%s, %s: %#x, want %#x", architecture, tt.name, got, tt.want)
			}
		}
	}
}

// TestProgramOfEveryOther: each call has what is meant for it, in the longest filter. The kernel
// takes at most 4096 instructions.
func TestProgramOfEveryOther(t *testing.T) {
	for _, architecture := range architectures {
		m := machineOf(architecture)
		f := &Filter{Errno: "EINVAL"}
		call := numbers(m)
		for _, name := range expand([]string{"@known"}) {
			if call[name]%2 == 0 {
				f.Calls = append(f.Calls, name)
			}
		}
		p := f.Program(architecture)
		if n := len(p); n > 4096 || n < 500 {
			t.Errorf("%s: %d instructions", architecture, n)
		}
		for name, number := range call {
			want := uint32(returnErrno | 22)
			if strings.Contains(" "+strings.Join(f.Calls, " ")+" ", " "+name+" ") {
				want = returnAllow
			}
			if got := returned(t, p, m.audit, number); got != want {
				t.Errorf("%s, %s: %#x, want %#x", architecture, name, got, want)
			}
		}
	}
}

// TestGuards: arguments are looked at, and the rest of the filter holds as well.
func TestGuards(t *testing.T) {
	const noFamily, noRight, protRead, protWrite, protExecute = returnErrno | 97, returnErrno | 1, 1, 2, 4
	sockets := &Settings{AddressFamilies: []string{"AF_UNIX", "AF_INET6"}}
	none := &Settings{AddressFamilies: []string{}}
	denied := &Settings{AddressFamilies: []string{"AF_INET"}, Syscalls: Syscalls{Allow: []string{"@io-event", "@aio"}}}
	code := &Settings{DenyWriteExecute: true}
	tests := []struct {
		settings  *Settings
		call      string
		arguments []uint32
		want      uint32
	}{
		{sockets, "socket", []uint32{1}, returnAllow},
		{sockets, "socket", []uint32{10}, returnAllow},
		{sockets, "socket", []uint32{2}, noFamily},
		{sockets, "read", nil, returnAllow},
		{sockets, "io_uring_setup", nil, noRight},
		{none, "socket", []uint32{1}, noFamily},
		{denied, "socket", []uint32{16}, noFamily},
		{denied, "socket", []uint32{2}, noRight},
		{denied, "io_uring_setup", nil, noRight},
		{denied, "io_submit", nil, returnAllow},
		{code, "socket", []uint32{17}, returnAllow},
		{code, "mmap", []uint32{0, 0, protRead | protExecute}, returnAllow},
		{code, "mmap", []uint32{0, 0, protRead | protWrite}, returnAllow},
		{code, "mmap", []uint32{0, 0, protRead | protWrite | protExecute}, noRight},
		{code, "mprotect", []uint32{0, 0, protRead}, returnAllow},
		{code, "mprotect", []uint32{0, 0, protRead | protExecute}, noRight},
		{code, "pkey_mprotect", []uint32{0, 0, protExecute}, noRight},
		{code, "shmat", []uint32{0, 0, 0o100000}, noRight},
	}
	for _, architecture := range []string{"amd64", "arm", "arm64"} {
		m := machineOf(architecture)
		for _, tt := range tests {
			call := tt.call
			if call == "mmap" && architecture == "arm" {
				call = "mmap2"
			}
			if got := returned(t, tt.settings.filter().Program(architecture), m.audit, numbers(m)[call], tt.arguments...); got != tt.want {
				t.Errorf("%s, %+v: %s%v is %#x, want %#x", architecture, tt.settings, call, tt.arguments, got, tt.want)
			}
		}
	}
	if p := sockets.filter().Program("386"); p == nil || len(p) > 0 {
		t.Errorf("386 has socketcall, and a filter of arguments: %v", p)
	}
}

func BenchmarkProgram(b *testing.B) {
	s := &Syscalls{Allow: []string{"@system-service"}}
	for b.Loop() {
		s.Filter().Program("amd64")
	}
}
