package enforce

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// TestFilterWithoutNumbers: a filter for an architecture without a table is no filter that allows
// everything.
func TestFilterWithoutNumbers(t *testing.T) {
	plan := &sandbox.Plan{Filter: []sandbox.Instruction{}, FilterKeys: []string{"syscalls"}}
	s := &Sandbox{plan: plan}
	f, ok := errors.AsType[*sandbox.Failure](s.Bound())
	if !ok || f.Key != "syscalls" || f.Errno != unix.ENOTSUP {
		t.Errorf("Bound: %v, want ENOTSUP of syscalls", f)
	}
	plan.BestEffort = true
	if err := s.Bound(); err != nil || len(s.Warnings()) != 1 {
		t.Errorf("with best_effort: %v, warnings %v", err, s.Warnings())
	}
}

// TestLoadFilterFails: without its filter no program begins, also where the sandbox may be
// incomplete.
func TestLoadFilterFails(t *testing.T) {
	s := &Sandbox{plan: &sandbox.Plan{BestEffort: true, FilterKeys: []string{"syscalls"}}, filter: []sandbox.Instruction{{Code: 0xffff}}}
	err := s.LoadFilter()
	if f, ok := errors.AsType[*sandbox.Failure](err); !ok || f.Key != "syscalls" || f.Errno == 0 {
		t.Errorf("LoadFilter of what is no filter: %v, want a failure of syscalls", err)
	}
	if len(s.Warnings()) > 0 {
		t.Errorf("it is a warning: %v", s.Warnings())
	}
}
