//go:build linux

package main

import (
	"errors"
	"fmt"
	"log/slog"

	"superd/config"
	"superd/internal/procfs"
	"superd/procs"
	"superd/procs/journal"
	"superd/procs/linux"
	"superd/procs/rundir"
)

// A recoveredState is the state in the journal of the predecessor, and the open journal.
type recoveredState struct {
	journal  *journal.Journal
	snapshot *procs.Snapshot
	boot     string // id of this boot of the machine
}

// recoverFrom reads the journal in the runtime directory. keeper is the pid of the keeper, 0
// without one; conf is the configuration just loaded, nil without one. A journal of a newer format
// is an error if programs live that may be in it; otherwise it is removed.
func recoverFrom(dir *rundir.Dir, keeper int, conf *config.Config, log *slog.Logger) (*recoveredState, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	j, state, err := journal.Open(dir.Path, boot, log)
	if newer, ok := errors.AsType[*journal.VersionError](err); ok {
		var users func(string) []string
		if conf != nil {
			users = func(instance string) []string { return procs.UsersOf(conf, instance) }
		}
		if err := linux.RefuseSurvivors(dir.Path, dir.FIFODir, keeper, users, newer); err != nil {
			return nil, err
		}
		log.Warn("journal of a newer superd removed: none of its programs is alive", "written_by", newer.Writer.Version, "format", newer.Format)
		if err := journal.Remove(dir.Path); err != nil {
			return nil, err
		}
		j, state, err = journal.Open(dir.Path, boot, log)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	snapshot := procs.ReadSnapshot(state, procs.SameOr(conf, config.Restore), log)
	snapshot.Clean = !dir.Unclean
	return &recoveredState{j, snapshot, boot}, nil
}
