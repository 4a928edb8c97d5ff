package codec

import (
	"strconv"
	"syscall"

	"superd/internal/signame"
)

// An ExitStatus is how a process ends: an exit code from 0 to 255, or a signal, which is the number
// of the signal negated. A journal has it as an integer.
type ExitStatus int

// KilledBy returns the ExitStatus of a process that the signal has ended.
func KilledBy(sig syscall.Signal) ExitStatus { return -ExitStatus(sig) }

// ExitStatusValue reads an exit code, or a signal by its name. A number as a string could mean
// both.
var ExitStatusValue = Codec[ExitStatus]{
	Name: "exit code or signal",
	Schema: func() *Schema {
		return &Schema{AnyOf: []any{Integer(0, 255).Schema(), StopSignal.Schema()}}
	},
	Show: func(s ExitStatus) string {
		if s < 0 {
			return strconv.Quote(signame.Name(syscall.Signal(-s)))
		}
		return strconv.Itoa(int(s))
	},
	Read: func(v Value) (ExitStatus, bool) {
		switch raw := v.Raw.(type) {
		case int64:
			code, ok := Integer(0, 255).Read(v)
			return ExitStatus(code), ok
		case string:
			if _, err := strconv.Atoi(raw); err == nil {
				break
			}
			sig, ok := StopSignal.Read(v)
			return KilledBy(sig), ok
		}
		v.Fail(`must be an exit code such as 3 or a signal such as "SIGTERM", got %s`, v.Describe())
		return 0, false
	},
}
