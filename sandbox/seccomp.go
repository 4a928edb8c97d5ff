package sandbox

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An Instruction is one of classic BPF, as the kernel takes it (struct sock_filter).
type Instruction struct {
	Code   uint16
	Jt, Jf uint8 // how many instructions a jump leaves out, if it is true and if not
	K      uint32
}

// bits returns the instruction as a number.
func (in Instruction) bits() uint64 {
	return uint64(in.Code)<<48 | uint64(in.Jt)<<40 | uint64(in.Jf)<<32 | uint64(in.K)
}

// instruction returns the instruction with these bits.
func instruction(bits uint64) Instruction {
	return Instruction{Code: uint16(bits >> 48), Jt: uint8(bits >> 40), Jf: uint8(bits >> 32), K: uint32(bits)}
}

// Codes of instructions. Source: linux/bpf_common.h.
const (
	codeLoad   = 0x20 // BPF_LD | BPF_W | BPF_ABS
	codeJump   = 0x05 // BPF_JMP | BPF_JA
	codeIsSame = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	codeIsFrom = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	codeAnd    = 0x54 // BPF_ALU | BPF_AND | BPF_K
	codeReturn = 0x06 // BPF_RET | BPF_K
)

// What a filter returns, and offsets in struct seccomp_data. Source: linux/seccomp.h.
const (
	returnAllow = 0x7fff0000
	returnErrno = 0x00050000 // with the number
	returnKill  = 0x80000000 // the process

	offsetNumber = 0
	offsetArch   = 4
)

// notThere is what becomes of a call that is not for this machine: ENOSYS.
const notThere = uint32(returnErrno | 38)

// refusal returns what becomes of a refused call, by the errno of a filter. The numbers are those
// of all architectures that have a table.
func refusal(errno string) uint32 {
	switch errno {
	case "EACCES":
		return returnErrno | 13
	case "ENOSYS":
		return notThere
	case "EINVAL":
		return returnErrno | 22
	case "ENOENT":
		return returnErrno | 2
	case "EOPNOTSUPP":
		return returnErrno | 95
	case "EUCLEAN":
		return returnErrno | 117
	case "kill":
		return returnKill
	}
	return returnErrno | 1 // EPERM
}

// Programs has the programs of filters, each of which takes long to make. The zero value is ready
// to use, by several goroutines.
type Programs struct {
	mu   sync.Mutex
	made map[string][]Instruction // by what the filter is made of
}

// of returns the program of a filter for this machine; nil if s demands none.
func (p *Programs) of(s *Settings) []Instruction {
	if !s.filters() {
		return nil
	}
	const most = 100 // programs of former configurations are not kept for ever
	key := fmt.Sprintf("%#v %#v %t", s.Syscalls, s.AddressFamilies, s.DenyWriteExecute)
	p.mu.Lock()
	defer p.mu.Unlock()
	if program, ok := p.made[key]; ok {
		return program
	}
	if p.made == nil || len(p.made) >= most {
		p.made = map[string][]Instruction{}
	}
	p.made[key] = s.filter().Program(runtime.GOARCH)
	return p.made[key]
}

// A machine is what a filter has to know of an architecture.
type machine struct {
	audit uint32 // AUDIT_ARCH_X86_64
	table string // of system calls, as [machineOf] describes it
}

// Values of machine.audit; firstX32 is the first call of the second set of numbers of amd64.
const (
	auditAMD64 = 0xc000003e
	audit386   = 0x40000003
	firstX32   = 0x40000000
)

// A span is what becomes of the calls from a number up to that of the next span.
type span struct{ first, action uint32 }

// Program returns the filter for an architecture, as Go names it. It is empty if there is no table
// of its calls, or if arguments that count are in memory (386). Calls that other architectures have
// on the same machine are not implemented: their numbers have other meanings.
//
// As in systemd, a call that the table does not know is not implemented for a program that is
// allowed some calls: libraries have a way without new calls.
func (f *Filter) Program(architecture string) []Instruction {
	m := machineOf(architecture)
	if m == nil || len(f.guards) > 0 && m.audit == audit386 {
		return []Instruction{}
	}
	program := []Instruction{
		{Code: codeLoad, K: offsetArch},
		{Code: codeIsSame, Jt: 1, K: m.audit},
		{Code: codeReturn, K: notThere},
		{Code: codeLoad, K: offsetNumber},
	}
	for name, number := range m.calls() {
		for i := range f.guards {
			if f.guards[i].call == name {
				program = append(program, f.guards[i].program(number)...)
			}
		}
	}
	return append(program, search(f.spans(m))...)
}

// calls returns the names of the machine's system calls, with their numbers, which ascend.
func (m *machine) calls() iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		next := uint32(0)
		for word := range strings.FieldsSeq(m.table) {
			if number, err := strconv.ParseUint(word, 10, 32); err == nil {
				next = uint32(number)
				continue
			}
			if !yield(word, next) {
				return
			}
			next++
		}
	}
}

// spans returns what becomes of each number.
func (f *Filter) spans(m *machine) []span {
	listed, others, unknown := uint32(returnAllow), refusal(f.Errno), notThere
	if f.Refuse {
		listed, others, unknown = others, listed, listed
	}
	var all []span
	next := uint32(0)
	set := func(first, action uint32) {
		if last := len(all) - 1; last < 0 || all[last].action != action {
			all = append(all, span{first, action})
		}
		next = first + 1
	}
	for name, number := range m.calls() {
		if number > next {
			set(next, unknown)
		}
		if _, is := slices.BinarySearch(f.Calls, name); is {
			set(number, listed)
		} else {
			set(number, others)
		}
	}
	set(next, unknown)
	if m.audit == auditAMD64 {
		set(firstX32, notThere)
	}
	return all
}

// search returns the program that searches for the span of the loaded number by halves: a call
// passes few instructions, and the kernel has few to translate.
func search(spans []span) []Instruction {
	if len(spans) == 1 {
		return []Instruction{{Code: codeReturn, K: spans[0].action}}
	}
	half := len(spans) / 2
	low, high := search(spans[:half]), search(spans[half:])
	is := Instruction{Code: codeIsFrom, K: spans[half].first}
	const farthest = 255
	if len(low) <= farthest {
		is.Jt = uint8(len(low))
		return slices.Concat([]Instruction{is}, low, high)
	}
	is.Jf = 1
	return slices.Concat([]Instruction{is, {Code: codeJump, K: uint32(len(low))}}, low, high)
}
