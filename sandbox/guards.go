package sandbox

import (
	"maps"
	"slices"
)

// families are the names and numbers of the kinds of sockets.
//
// Source: address_families(7), linux/socket.h.
var families = map[string]uint32{
	"AF_UNIX": 1, "AF_INET": 2, "AF_AX25": 3, "AF_IPX": 4, "AF_APPLETALK": 5, "AF_INET6": 10,
	"AF_KEY": 15, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_RDS": 21, "AF_PPPOX": 24, "AF_LLC": 26,
	"AF_IB": 27, "AF_MPLS": 28, "AF_CAN": 29, "AF_TIPC": 30, "AF_BLUETOOTH": 31, "AF_ALG": 38,
	"AF_NFC": 39, "AF_VSOCK": 40, "AF_KCM": 41, "AF_QIPCRTR": 42, "AF_SMC": 43, "AF_XDP": 44,
}

// AddressFamilies returns the names of the kinds of sockets, sorted.
func AddressFamilies() []string { return slices.Sorted(maps.Keys(families)) }

// A guard refuses calls of one system call by an argument, whatever else the filter says.
type guard struct {
	call     string
	argument uint32 // 0 for the first
	mask     uint32 // bits of it that count
	values   []uint32
	refuse   bool // these values, else all others
	action   uint32
}

// guards returns what the settings demand of arguments.
func (s *Settings) guards() (all []guard) {
	if s.AddressFamilies != nil {
		const notSupported = returnErrno | 97 // EAFNOSUPPORT
		allowed := make([]uint32, len(s.AddressFamilies))
		for i, name := range s.AddressFamilies {
			allowed[i] = families[name]
		}
		all = append(all, guard{"socket", 0, ^uint32(0), allowed, false, notSupported})
	}
	if s.DenyWriteExecute {
		const write, execute, shmExecute = 2, 4, 0o100000
		refused := refusal("EPERM")
		all = append(all,
			guard{"mmap", 2, write | execute, []uint32{write | execute}, true, refused},
			guard{"mmap2", 2, write | execute, []uint32{write | execute}, true, refused},
			guard{"mprotect", 2, execute, []uint32{execute}, true, refused},
			guard{"pkey_mprotect", 2, execute, []uint32{execute}, true, refused},
			guard{"shmat", 2, shmExecute, []uint32{shmExecute}, true, refused})
	}
	return all
}

// program returns the guard for a call's number, which is loaded before and after it.
func (g *guard) program(number uint32) []Instruction {
	const argument, size = 16, 8 // in struct seccomp_data; all machines are little-endian
	check := []Instruction{
		{Code: codeLoad, K: argument + size*g.argument},
		{Code: codeAnd, K: g.mask},
	}
	for i, value := range g.values {
		is := Instruction{Code: codeIsSame, K: value}
		if g.refuse {
			is.Jf = 1 // there is one value
		} else {
			is.Jt = uint8(len(g.values) - i)
		}
		check = append(check, is)
	}
	check = append(check, Instruction{Code: codeReturn, K: g.action}, Instruction{Code: codeLoad, K: offsetNumber})
	return append([]Instruction{{Code: codeIsSame, Jf: uint8(len(check)), K: number}}, check...)
}
