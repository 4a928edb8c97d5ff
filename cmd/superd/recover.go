package main

import (
	"errors"
	"fmt"
	"log/slog"

	"superd/config"
	"superd/procs"
	"superd/procs/journal"
)

// A legacy is what the superd before has left, and the journal for the next one.
type legacy struct {
	journal  *journal.Journal
	recovery *procs.Recovery
	boot     string // this boot of the machine
}

// recoverFrom reads the journal in the runtime directory. conf is the configuration just loaded, nil without one. A journal that can't be read is an
// error if programs live of which it may tell.
func recoverFrom(dir *procs.RuntimeDir, conf *config.Config, log *slog.Logger) (*legacy, error) {
	boot, err := procs.BootID()
	if err != nil {
		return nil, err
	}
	j, state, err := journal.Open(dir.Path, boot, log)
	if newer, ok := errors.AsType[*journal.VersionError](err); ok {
		if err := procs.RefuseSurvivors(dir.Path, newer); err != nil {
			return nil, err
		}
		log.Warn("journal of another superd removed: none of its programs runs", "written_by", newer.Writer.Version, "format", newer.Format)
		if err := journal.Remove(dir.Path); err != nil {
			return nil, err
		}
		j, state, err = journal.Open(dir.Path, boot, log)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	recovery := procs.ReadRecovery(state, procs.SameOr(conf, config.Restore), log)
	recovery.Clean = !dir.Unclean
	return &legacy{j, recovery, boot}, nil
}
