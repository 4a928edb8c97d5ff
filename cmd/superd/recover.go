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
	"superd/procs/snapshot"
)

// A recoveredState is the state in the journal of the predecessor, and the open journal.
type recoveredState struct {
	journal  *journal.Journal
	snapshot *snapshot.Snapshot
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
	return &recoveredState{j, readSnapshot(state, conf, log), boot}, nil
}

// readSnapshot reads the predecessor's records, and logs what it can't use. conf is as for
// recoverFrom.
func readSnapshot(state *journal.State, conf *config.Config, log *slog.Logger) *snapshot.Snapshot {
	s := snapshot.Read(state, snapshot.SameOr(conf, config.Restore))
	if s.OtherBoot {
		log.Info("journal of an earlier boot ignored: its programs are gone")
	}
	for _, r := range s.Refused {
		log.Warn(r.String(), "key", r.Key, "error", r.Err)
	}
	if s.Incomplete && s.Existed && !s.OtherBoot {
		log.Warn("journal incomplete: scanning /proc for processes of the predecessor")
	}
	return s
}
