// Package rlimit has the limits that the kernel keeps for each process, by number and by name.
//
// Source: man 2 getrlimit; asm-generic/resource.h, which holds on amd64, arm64 and riscv64.
package rlimit

import "math"

// A Resource is the number of a limit.
type Resource uint8

// The limits, without those that the kernel ignores (rss, locks).
const (
	CPUTime    Resource = 0
	FSize      Resource = 1
	Data       Resource = 2
	Stack      Resource = 3
	Core       Resource = 4
	NProc      Resource = 6
	NoFile     Resource = 7
	MemLock    Resource = 8
	AS         Resource = 9
	SigPending Resource = 11
	MsgQueue   Resource = 12
	Nice       Resource = 13
	RTPrio     Resource = 14
	RTTime     Resource = 15
)

var names = [...]string{
	CPUTime: "cpu_time", FSize: "fsize", Data: "data", Stack: "stack", Core: "core",
	NProc: "nproc", NoFile: "nofile", MemLock: "memlock", AS: "as", SigPending: "sigpending",
	MsgQueue: "msgqueue", Nice: "nice", RTPrio: "rtprio", RTTime: "rttime",
}

// String returns the name of r below limits; "" if it has none.
func (r Resource) String() string {
	if int(r) >= len(names) {
		return ""
	}
	return names[r]
}

// Infinity is the value without a limit.
const Infinity uint64 = math.MaxUint64

// A Limit is the limit of one resource. The kernel enforces Soft, which a process may raise to
// Hard.
type Limit struct {
	Resource   Resource
	Soft, Hard uint64
}
