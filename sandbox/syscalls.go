package sandbox

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// always is the group of system calls that a filter can't refuse: without them no program runs.
const always = "@default"

// groups returns the members of each group, which may be groups themselves.
var groups = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	group := ""
	for word := range strings.FieldsSeq(groupTable) {
		if name, isGroup := strings.CutSuffix(word, ":"); isGroup {
			group = name
			continue
		}
		all[group] = append(all[group], word)
	}
	return all
})

// names returns the groups, and then all system calls that are in one.
var names = sync.OnceValue(func() []string {
	ofGroups := slices.Sorted(maps.Keys(groups()))
	return slices.Concat(ofGroups, expand(ofGroups))
})

// SyscallNames returns the names that a filter may have: groups, and then system calls.
func SyscallNames() []string { return slices.Clone(names()) }

// IsAlwaysAllowed reports whether no filter refuses what name stands for.
func IsAlwaysAllowed(name string) bool {
	return name == always || slices.Contains(expand([]string{always}), name)
}

// expand returns the system calls that names stand for, sorted.
func expand(names []string) (calls []string) {
	var add func(names []string)
	add = func(names []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "@") {
				add(groups()[name])
			} else {
				calls = append(calls, name)
			}
		}
	}
	add(names)
	slices.Sort(calls)
	return slices.Compact(calls)
}

// A Filter is a list of system calls, and what becomes of a call.
type Filter struct {
	Refuse bool     // the listed calls are refused, else all others
	Calls  []string // sorted
	Errno  string   // error of a refused call
	guards []guard
}

// filter returns the filter that the settings describe; nil if there is none.
func (s *Settings) filter() *Filter {
	calls := s.Syscalls
	if s.AddressFamilies != nil {
		// It makes sockets without a system call.
		calls.Deny = append(slices.Clone(calls.Deny), "io_uring_setup")
	}
	f := calls.Filter()
	if f == nil && s.DenyWriteExecute {
		f = &Filter{Refuse: true, Errno: "EPERM"}
	}
	if f != nil {
		f.guards = s.guards()
	}
	return f
}

// Filter returns the filter that s describes; nil if there is none.
//
// As in systemd, what is denied is denied even if it is allowed, too, and [always] is allowed.
func (s *Syscalls) Filter() *Filter {
	if !s.Enabled() {
		return nil
	}
	needed := expand([]string{always})
	denied := slices.DeleteFunc(expand(s.Deny), func(call string) bool {
		return slices.Contains(needed, call)
	})
	f := &Filter{Refuse: s.Allow == nil, Calls: denied, Errno: s.Errno}
	if f.Errno == "" {
		f.Errno = "EPERM"
	}
	if s.Allow != nil {
		f.Calls = slices.DeleteFunc(expand(append(slices.Clone(s.Allow), always)), func(call string) bool {
			return slices.Contains(denied, call)
		})
	}
	return f
}
