// Package enforce carries out a plan of package sandbox in the exec shim, between the fork and the
// program.
//
// All of it applies to the calling thread, which must be locked and execute the program later.
// [Sandbox.Isolate] comes first, while the thread has superd's rights. [Sandbox.Bound] prepares
// what needs rights, [Sandbox.Restrict] follows the change of the user, and [Sandbox.LoadFilter] is
// the last step before the exec, as the filter may refuse all other calls.
package enforce

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// A Sandbox carries out a plan.
type Sandbox struct {
	plan    *sandbox.Plan
	ruleset int // of Landlock; -1: none
	filter  []sandbox.Instruction

	warnings []sandbox.Failure
}

// New returns the sandbox for a plan, as [sandbox.Plan.Fields] returns it.
func New(fields []string) (*Sandbox, error) {
	plan, err := sandbox.ReadPlan(fields)
	if err != nil {
		return nil, err
	}
	return &Sandbox{plan: plan, ruleset: -1}, nil
}

// Warnings returns what could not be enforced, if the plan allows that.
func (s *Sandbox) Warnings() []sandbox.Failure { return s.warnings }

// Isolate gives the thread its namespaces, mounts and root.
func (s *Sandbox) Isolate() error {
	if ids := s.plan.UserNamespace; ids != nil {
		// Always an error: without its user the program could do less than without a sandbox.
		if err := mapIDs(ids); err != nil {
			f := failure(s.plan.NamespaceKey(), "", err)
			f.Rights = sandbox.RightsOfNamespace
			return &f
		}
	}
	if s.plan.Network {
		if err := s.check("private_network", "", ownNetwork()); err != nil {
			return err
		}
	}
	if s.plan.Mounts {
		return s.mount()
	}
	return nil
}

// Bound takes capabilities from the bounding set, and makes what [Sandbox.Restrict] applies.
func (s *Sandbox) Bound() error {
	if s.plan.Bounding != nil {
		if err := s.dropBounding(); err != nil {
			return err
		}
	}
	if s.plan.Filter != nil {
		if err := s.checkEach(s.plan.FilterKeys, s.checkFilter()); err != nil {
			return err
		}
	}
	if s.plan.Landlock != nil {
		return s.makeRuleset()
	}
	return nil
}

// KeepsCapabilities reports whether the thread has to keep its permitted capabilities when it
// changes its user.
func (s *Sandbox) KeepsCapabilities() bool { return s.plan.Ambient != 0 }

// Restrict applies capabilities, no_new_privs and Landlock.
func (s *Sandbox) Restrict() error {
	if err := s.setAmbient(); err != nil {
		return err
	}
	if s.noNewPrivs() {
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err := s.check("no_new_privileges", "", err); err != nil {
			return err
		}
	}
	if len(s.filter) > 0 && !s.noNewPrivs() && !isAdmin() {
		s.filter = nil
		if err := s.checkEach(s.plan.FilterKeys, unix.EACCES); err != nil {
			return err
		}
	}
	if s.ruleset < 0 {
		return nil
	}
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(s.ruleset), 0, 0)
	return s.check("landlock", "", result(errno))
}

// noNewPrivs reports whether the plan sets no_new_privs. Without it Landlock and filters need
// CAP_SYS_ADMIN.
func (s *Sandbox) noNewPrivs() bool {
	if set := s.plan.NoNewPrivs; set != nil {
		return *set
	}
	return s.plan.Landlock != nil || s.plan.Filter != nil
}

// check returns the failure of a key as an error, or makes it a warning. err may be nil.
func (s *Sandbox) check(key, object string, err error) error {
	if err == nil {
		return nil
	}
	f := failure(key, object, err)
	if !s.plan.BestEffort {
		return &f
	}
	s.warnings = append(s.warnings, f)
	return nil
}

// checkEach is [Sandbox.check] for several keys.
func (s *Sandbox) checkEach(keys []string, err error) error {
	for _, key := range keys {
		if err := s.check(key, "", err); err != nil {
			return err
		}
	}
	return nil
}

func failure(key, object string, err error) sandbox.Failure {
	f := sandbox.Failure{Key: key, Object: object, Errno: unix.EINVAL}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = errno
	}
	_, f.OpenRefused = errors.AsType[openRefusedError](err)
	if unix.Geteuid() == 0 {
		f.Rights = sandbox.RightsOfRoot
	}
	return f
}

// result returns the error of a raw system call.
func result(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
