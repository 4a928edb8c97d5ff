package cgroup

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/linuxtest"
	"superd/procs/linux/proctree"
)

// A bed is a [linuxtest.Bed] whose trees are cgroups.
type bed struct {
	*linuxtest.Bed
	manager *Manager
}

// newBed skips the test without the right to make cgroups.
func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{}
	plain := &linuxtest.PlainHost{}
	b.Bed = linuxtest.NewBed(t, func(l *loop.Loop, dir string) host.Host {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		scanner := proctree.New(proctree.Options{
			RuntimeDir: dir, Log: log, Post: l.Post,
			IsNew:  func(int) bool { return false },
			Refuse: func(*config.Limits) error { return nil },
		})
		plain.Reaping = scanner.NoteReaping
		var err error
		b.manager, err = Open(Options{
			RuntimeDir: dir, Log: log, Post: l.Post, Scan: scanner,
			Spawn: func(attr *pidfd.Attr) (*pidfd.Process, func(), error) {
				child, err := pidfd.Spawn(attr)
				return child, func() {}, err
			},
		})
		if err != nil {
			t.Skip(err, said.String())
		}
		plain.Trees = func(instance, dir string) host.Tree { return b.manager.NewTree(instance, dir) }
		return plain
	}, func() {
		b.manager.Close()
		if _, err := os.Stat(b.manager.base); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cgroups are still there: %v", err)
		}
	})
	return b
}
