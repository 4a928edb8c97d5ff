package config

import (
	"cmp"
	"time"

	"superd/config/codec"
	"superd/config/directory"
)

// Rolling says how a rolling restart replaces the instances of a program. MaxUnavailable and Surge
// are not both 0.
type Rolling struct {
	Surge          int // instances that are started beside the present ones
	MaxUnavailable int // instances that may be missing at a time
	// Between an instance that is ready and the stop of the next one
	Pause          time.Duration
	AbortOnFailure bool // a new run that fails ends the rolling restart
	// How long a replica may wait for its start, until the rolling restart ends; 0: for ever
	WaitTimeout time.Duration
}

// defaultWaitTimeout is long enough for a requirement that restarts, even with a slow start.
const defaultWaitTimeout = 5 * time.Minute

// defaultRolling replaces one instance at a time, the new one first.
var defaultRolling = Rolling{Surge: 1, AbortOnFailure: true, WaitTimeout: defaultWaitTimeout}

// RollingOrDefault returns how a rolling restart replaces the instances of p. Without a table, it
// restarts one instance after the other.
func (p *Program) RollingOrDefault() Rolling {
	if p.Rolling == nil {
		return Rolling{MaxUnavailable: 1, AbortOnFailure: true, WaitTimeout: defaultWaitTimeout}
	}
	return *p.Rolling
}

// rollingKeys returns the keys of rolling restarts, in the order of the reference.
func rollingKeys() []key {
	return []key{
		bind("program", "rolling.surge", codec.Integer(0, MaxReplicas),
			func(d *builder) *int { return &d.rolling.Surge },
			"How many instances a rolling restart starts beside those of `replicas` before it "+
				"stops one. With a table `rolling`, which may be empty, a reload restarts the "+
				"program so, too."),
		bind("program", "rolling.max_unavailable", codec.Integer(0, MaxReplicas),
			func(d *builder) *int { return &d.rolling.MaxUnavailable },
			"How many of `replicas` may be missing or not ready at a time."),
		bind("program", "rolling.pause", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.rolling.Pause },
			"Time between an instance that is ready and the stop of the next one; at least `\"1s\"` for a program without `ready` and `post_start`."),
		bind("program", "rolling.abort_on_failure", codec.Boolean,
			func(d *builder) *bool { return &d.rolling.AbortOnFailure },
			"Whether a new run that fails ends the rolling restart, so that the other instances "+
				"keep running as they are."),
		bind("program", "rolling.wait_timeout", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.rolling.WaitTimeout },
			"How long an instance may wait for its start, as for a requirement, until the rolling "+
				"restart ends; `\"0s\"`: without limit."),
		bind("program", "drain_timeout", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.DrainTimeout },
			"How long an instance that a rolling restart stops may take to finish what it has "+
				"begun, in place of `stop_timeout`; `\"0s\"`: `stop_timeout`."),
	}
}

// checkRolling checks the table rolling, and sets the field if there is one.
func (d *builder) checkRolling() {
	d.Rolling = nil
	switch {
	case !d.anySet("rolling"):
		return
	case d.Type == TypeOneshot:
		// The table in [defaults] is meant for services.
		if d.isSet("rolling") {
			d.set["rolling"].FailKey("is for services: a one-shot has no run to replace: remove it")
		}
		return
	case d.rolling.Surge == 0 && d.rolling.MaxUnavailable == 0:
		d.mistakeAt("rolling.surge", "rolling.max_unavailable").Fail("with surge and max_unavailable both 0 no instance can be replaced: write 1 for one of them")
		return
	case d.rolling.Surge > 0 && (d.Log.File != "" || d.Log.StderrFile != ""):
		d.mistakeAt("rolling.surge", "log.file", "log.stderr_file").Fail("an extra instance would have the same log file, %q: remove it, so that each has its own, or write surge = 0 and max_unavailable = 1", cmp.Or(d.Log.File, d.Log.StderrFile))
		return
	case d.rolling.Surge > 0 && d.PIDFile != "" && !namesReplica(d.PIDFile):
		d.mistakeAt("rolling.surge", "pid_file").Fail("%q would be the pid file of an extra instance, too: add ${SUPERD_REPLICA} to it, or write surge = 0 and max_unavailable = 1", d.PIDFile)
		return
	case d.rolling.Surge > 0 && d.SharedDirectory() != "":
		d.mistakeAt("rolling.surge", directory.Runtime.Key()).Fail("%q would be removed with an extra instance: add ${SUPERD_REPLICA} to it, or write surge = 0 and max_unavailable = 1", d.SharedDirectory())
		return
	}
	rolling := d.rolling
	d.Rolling = &rolling
}

// compareRolling returns the change of a table rolling that is new or gone. Its keys may have the
// same values as the defaults.
func compareRolling(before, after *Rolling) []KeyChange {
	switch {
	case before == nil && after != nil:
		return []KeyChange{{Key: "rolling", What: "added"}}
	case before != nil && after == nil:
		return []KeyChange{{Key: "rolling", What: "removed"}}
	}
	return nil
}
