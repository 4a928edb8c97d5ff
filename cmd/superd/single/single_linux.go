// Package single runs one command without a configuration, as tini and dumb-init do: it forwards
// signals to the command, reaps orphans, and ends with the command's exit status.
//
// Three processes of Go take part. superd executes the small binary of cmd/superd-exec in its own
// place ([Execute]), if it has that embedded, since its own code takes more memory. That one
// ([Main]) forwards and reaps. It starts itself again to become the command ([BecomeCommand]): what
// has to happen between fork and exec, as the process group and the terminal, is done there.
package single

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/sandbox/shim"
)

// Exit statuses of tini and dumb-init.
const (
	statusFailed        = 1
	statusDumbInitExec  = 2   // the command can't be executed
	statusNotExecutable = 126 // likewise, with tini
	statusNotFound      = 127
)

// Execute replaces this process by the small binary, or goes on without it if it can't be executed.
// It does not return if [Concerns] is true for the arguments.
func Execute() {
	if !Concerns(os.Args) {
		return
	}
	if fd, err := shim.Open(); err == nil {
		// Only if /proc is mounted, and files in memory may be executed
		_ = syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args, withoutPreemption(os.Environ()))
		unix.Close(fd)
	}
	os.Exit(Main(os.Args, os.Environ()))
}

// noPreemption is a setting of Go's runtime: it sends itself no SIGURG, which would be forwarded.
const noPreemption = "asyncpreemptoff=1"

const goDebug = "GODEBUG="

// withoutPreemption returns an environment for the small binary.
func withoutPreemption(env []string) []string {
	for i, v := range env {
		if before, ok := strings.CutPrefix(v, goDebug); ok {
			env = slices.Clone(env)
			env[i] = goDebug + noPreemption + "," + before
			return env
		}
	}
	return append(slices.Clip(env), goDebug+noPreemption)
}

// withPreemption returns the environment that withoutPreemption has changed.
func withPreemption(env []string) []string {
	env = slices.DeleteFunc(env, func(v string) bool { return v == goDebug+noPreemption })
	for i, v := range env {
		if before, ok := strings.CutPrefix(v, goDebug+noPreemption+","); ok {
			env[i] = goDebug + before
		}
	}
	return env
}

// Become does not return if [Execute] has started this process, which is the small binary, or if it
// is to become the command.
func Become() {
	BecomeCommand()
	if Concerns(os.Args) {
		os.Exit(Main(os.Args, withPreemption(os.Environ())))
	}
}

// Main runs the command that the arguments ask for, in that environment, and returns the exit
// status.
func Main(args, env []string) int {
	o, err := parse(args, env)
	switch {
	case o.help:
		fmt.Fprint(o.helpOutput(), o.usage())
		return 0
	case o.version:
		fmt.Fprintf(o.helpOutput(), "%s of superd\n", o.name)
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n\n%s", o.name, err, o.usage())
		return statusFailed
	}
	setProcessName(filepath.Base(args[0]))
	status, err := (&parent{options: o}).run()
	if err != nil {
		o.printf("FATAL", "%v", err)
	}
	return status
}

// setProcessName replaces the name by which ps shows this process, which is that of a descriptor.
func setProcessName(name string) {
	if text, err := unix.BytePtrFromString(name); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptrOf(text), 0, 0, 0)
	}
}
