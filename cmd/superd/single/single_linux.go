// Package single runs one command without a configuration, as tini and dumb-init do: it forwards
// signals to the command, reaps orphans, and ends with the command's exit status.
//
// Three programs of Go take part. superd blocks all signals, and executes the small binary of
// cmd/superd-exec in its own place ([Execute]), if it has that embedded, since its own code takes
// more memory. That one ([Become]) forwards and reaps. It starts itself again to become the command
// ([BecomeCommand]): what has to happen between fork and exec, as the process group and the
// terminal, is done there.
package single

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"
	"superd/sandbox/shim"
)

// Exit statuses of tini and dumb-init.
const (
	statusFailed        = 1
	statusDumbInitExec  = 2   // the command can't be executed
	statusNotExecutable = 126 // likewise, with tini
	statusNotFound      = 127
)

// Execute replaces this process by the small binary, or by itself again if that can't be executed,
// with all signals blocked: only so every thread of the new program blocks them. It does not return
// if [Concerns] is true for the arguments.
func Execute() {
	Become()
	if !Concerns(os.Args) {
		return
	}
	runtime.LockOSThread() // the mask of this thread becomes that of the program
	blocked, err := disposition.SetBlocked(disposition.All)
	if err == nil {
		env := append(withoutPreemption(os.Environ()), blockedVariable+strconv.Itoa(os.Getpid())+":"+blocked.String())
		// Only if /proc is mounted, and files in memory may be executed
		if fd, err := shim.Open(); err == nil {
			_ = syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args, env)
			unix.Close(fd)
		}
		err = syscall.Exec("/proc/self/exe", os.Args, env)
	}
	fmt.Fprintf(os.Stderr, "superd: execute superd again: %v: is /proc mounted?\n", err)
	os.Exit(statusFailed)
}

// blockedVariable is a variable of the environment by which [Execute] passes on, with the pid of
// this process, which signals were blocked when it was started.
const blockedVariable = "SUPERD_SINGLE="

// blockedBefore returns what [Execute] has passed on to this process, and the environment without
// it; ok is false if it has not.
func blockedBefore(env []string) (m disposition.Mask, without []string, ok bool) {
	for i, v := range env {
		value, is := strings.CutPrefix(v, blockedVariable)
		if !is {
			continue
		}
		pid, mask, _ := strings.Cut(value, ":")
		m, err := disposition.ParseMask(mask)
		return m, slices.Delete(slices.Clone(env), i, i+1), err == nil && pid == strconv.Itoa(os.Getpid())
	}
	return 0, env, false
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

// Become does not return if [Execute] has executed this program, or if it is to become the command.
func Become() {
	BecomeCommand()
	if blocked, env, ok := blockedBefore(os.Environ()); ok && Concerns(os.Args) {
		os.Exit(run(os.Args, withPreemption(env), blocked))
	}
}

// run runs the command that the arguments ask for, in that environment, and returns the exit
// status.
func run(args, env []string, blocked disposition.Mask) int {
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
	status, err := (&parent{options: o, blocked: blocked}).run()
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
