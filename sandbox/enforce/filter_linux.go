package enforce

import (
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// Offsets in struct seccomp_data. Source: seccomp(2).
const (
	numberOffset = 0
	archOffset   = 4
)

// actions are what becomes of a refused call, by the errno of a filter.
var actions = map[string]uint32{
	"EPERM":      unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	"EACCES":     unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES),
	"ENOSYS":     notThere,
	"EINVAL":     unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL),
	"ENOENT":     unix.SECCOMP_RET_ERRNO | uint32(unix.ENOENT),
	"EOPNOTSUPP": unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP),
	"EUCLEAN":    unix.SECCOMP_RET_ERRNO | uint32(unix.EUCLEAN),
	"kill":       unix.SECCOMP_RET_KILL_PROCESS,
}

// notThere is what becomes of a call that is not for this machine.
const notThere = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

// makeFilter translates the plan's filter for this machine.
func (s *Sandbox) makeFilter() error {
	kind := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&kind)))
	if errno != 0 {
		return errno // now, since a failure of LoadFilter can't become a warning
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return unix.ENOTSUP
	}
	filter := s.plan.Syscalls.Filter()
	refused, ok := actions[filter.Errno]
	if !ok {
		return unix.EINVAL
	}
	s.filter = assemble(filter, info, refused)
	return nil
}

// assemble returns the program of a filter that refuses calls by an action. Each call is two
// instructions, as a jump reaches 255 instructions only. Calls that other architectures have on
// this machine are refused: their numbers have other meanings.
//
// As in systemd, a call that the table of names does not know is not implemented for a program
// that is allowed some calls: libraries have a way without new calls.
func assemble(f *sandbox.Filter, info *arch.Info, refused uint32) []unix.SockFilter {
	program := []unix.SockFilter{
		load(archOffset),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: uint32(info.ID)},
		ret(notThere),
		load(numberOffset),
	}
	if info.ID == arch.X32.ID { // x32 calls have the same architecture
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: uint32(arch.X32.SeccompMask)},
			ret(notThere))
	}
	match := func(number int, what uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(number)}, ret(what))
	}
	listed := map[int]bool{}
	for _, name := range f.Calls {
		number, ok := info.SyscallNames[name]
		if !ok {
			continue // of another architecture
		}
		listed[number] = true
		if f.Refuse {
			match(number, refused)
		} else {
			match(number, unix.SECCOMP_RET_ALLOW)
		}
	}
	if f.Refuse {
		return append(program, ret(unix.SECCOMP_RET_ALLOW))
	}
	for number := range info.SyscallNumbers {
		if !listed[number] {
			match(number, refused)
		}
	}
	return append(program, ret(notThere))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func ret(what uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what}
}

// LoadFilter applies the filter. After it the thread may make only calls that it allows. A failure
// is never a warning: those are reported already, and makeFilter has found what the kernel lacks.
func (s *Sandbox) LoadFilter() error {
	if len(s.filter) == 0 {
		return nil
	}
	program := unix.SockFprog{Len: uint16(len(s.filter)), Filter: &s.filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return &sandbox.Failure{Key: "syscalls", Errno: errno}
	}
	return nil
}
