package codec

import (
	"cmp"
	"fmt"
	"strconv"
	"syscall"

	"superd/internal/signame"
)

// StopSignal reads a signal.
var StopSignal = Text("signal", `a signal such as "SIGTERM"`, signame.Parse,
	func(sig syscall.Signal) string { return strconv.Quote(signame.Name(sig)) }).with(signals)

// KillSignal reads a signal; 0 is SIGKILL.
var KillSignal = Text("signal", `a signal such as "SIGKILL"`,
	func(s string) (syscall.Signal, error) {
		sig, err := signame.Parse(s)
		if sig == syscall.SIGKILL {
			sig = 0
		}
		return sig, err
	},
	func(sig syscall.Signal) string { return strconv.Quote(signame.Name(cmp.Or(sig, syscall.SIGKILL))) }).with(signals)

// ReloadSignal reads a signal that a program can handle; 0 is none.
var ReloadSignal = Text("signal", `a signal such as "SIGHUP"`,
	func(s string) (syscall.Signal, error) {
		sig, err := signame.Parse(s)
		if err == nil && (sig == syscall.SIGKILL || sig == syscall.SIGSTOP) {
			err = fmt.Errorf("no program can handle %s: write what it reloads by, as \"SIGHUP\"", signame.Name(sig))
		}
		return sig, err
	},
	func(sig syscall.Signal) string {
		if sig == 0 {
			return ""
		}
		return strconv.Quote(signame.Name(sig))
	}).with(signals)
