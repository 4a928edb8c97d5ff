package proctree

import (
	"log/slog"
	"testing"

	"superd/config"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/linux/linuxtest"
)

// A bed is a [linuxtest.Bed] whose trees are found by scans.
type bed struct {
	*linuxtest.Bed
	host    *linuxtest.PlainHost
	scanner *Scanner
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{host: &linuxtest.PlainHost{}}
	b.Bed = linuxtest.NewBed(t, func(l *loop.Loop, dir string) host.Host {
		b.scanner = New(Options{
			RuntimeDir: dir, Log: slog.New(slog.DiscardHandler), Post: l.Post,
			IsNew:  func(int) bool { return false },
			Refuse: func(*config.Limits) error { return nil },
		})
		b.host.Reaping = b.scanner.NoteReaping
		b.host.Trees = func(instance, dir string) host.Tree {
			return b.scanner.NewTree(instance, dir != "")
		}
		return b.host
	}, nil)
	return b
}
