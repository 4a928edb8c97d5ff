package cgroup

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/procs/host"
)

// TestExplainFailure: the error names the file of the limit and the remedy.
func TestExplainFailure(t *testing.T) {
	b := newBed(t)
	c := b.manager
	tests := []struct {
		limit, value string // limit of base, and its value
		err          error
		want         []string
	}{
		{"cgroup.max.descendants", "0", unix.EAGAIN, []string{c.base + "/cgroup.max.descendants, which is 0", "echo max >" + c.base + "/cgroup.max.descendants"}},
		{"cgroup.max.depth", "0", unix.EAGAIN, []string{c.base + "/cgroup.max.depth, which is 0", "raise it"}},
		// One level is needed
		{"cgroup.max.depth", "1", unix.EAGAIN, []string{"a limit on cgroups above"}},
		{"cgroup.max.depth", "max", unix.EROFS, []string{"read-only", "mount cgroup v2"}},
		{"cgroup.max.depth", "max", unix.EACCES, []string{c.own, "Delegate=yes"}},
		{"cgroup.max.depth", "max", unix.ENOSPC, []string{"remove unused ones"}},
	}
	for _, tt := range tests {
		if err := writeFile(filepath.Join(c.base, tt.limit), tt.value); err != nil {
			t.Fatal(err)
		}
		got := c.explain(filepath.Join(c.base, "program-web"), tt.err)
		for _, want := range tt.want {
			if !strings.Contains(got.Error(), want) || !errors.Is(got, tt.err) {
				t.Errorf("%s = %s: explain(%v) = %q, want %q in it", tt.limit, tt.value, tt.err, got, want)
			}
		}
		if err := writeFile(filepath.Join(c.base, tt.limit), "max"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLimitsWithoutCgroup: a program with a limit is not started while no cgroup can be made. The
// reason names the file, and superd retries.
func TestLimitsWithoutCgroup(t *testing.T) {
	b := newBed(t)
	c := b.manager
	c.enabled["pids"] = true // pretends that the controller is there
	if err := writeFile(filepath.Join(c.base, "cgroup.max.descendants"), "0"); err != nil {
		t.Fatal(err)
	}
	tasks := int64(10)
	_, err := b.Try(b.NewTree("web"), &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{Limits: config.Limits{Tasks: &tasks}}})
	se, ok := errors.AsType[*host.SpawnError](err)
	if want := c.base + "/cgroup.max.descendants"; !ok || se.Fault != host.FaultResource || !strings.Contains(err.Error(), want) {
		t.Errorf("start = %v, want %s named, and to be tried again", err, want)
	}
}

// TestFailureIsLoggedOnce: a failure is logged once until a cgroup can be made again.
func TestFailureIsLoggedOnce(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	var f creationFailure
	f.clear(log)
	for range 3 {
		f.set(log, unix.EAGAIN)
	}
	f.clear(log)
	f.clear(log)
	f.set(log, unix.EAGAIN)
	if got := strings.Count(said.String(), "\n"); got != 3 {
		t.Errorf("%d messages, want 3:\n%s", got, &said)
	}
}
