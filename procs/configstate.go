package procs

import (
	"bytes"

	"superd/config"
	"superd/procs/handover"
	"superd/procs/snapshot"
)

// A configState has the active configuration, and the numbers of those in the journal: a successor
// needs the older ones until the active one is applied completely.
type configState struct {
	*platform
	recorder *handover.Recorder
	saveSelf func() // queues superd's own record, which has the numbers
	active   *config.Config
	number   uint64 // number of active in the journal
	// First configuration replaced by a reload that is not saved completely; 0: none
	before uint64
}

func newConfigState(p *platform, rec *handover.Recorder, saveSelf func()) *configState {
	c := &configState{platform: p, recorder: rec, saveSelf: saveSelf}
	c.setActive(p.options.Config)
	return c
}

func (c *configState) setActive(conf *config.Config) {
	c.active = conf
	if f := c.options.Activated; f != nil {
		f(conf)
	}
}

// snapshot sets the numbers in the record of superd.
func (c *configState) snapshot(v *snapshot.Superd) { v.Config, v.Before = c.number, c.before }

// restore sets the numbers, and makes known active: the configuration that the predecessor has
// applied completely. known may be nil; restore reports whether it is not.
func (c *configState) restore(v *snapshot.Superd, known *config.Config) bool {
	c.number, c.before = v.Config, v.Before
	if known != nil {
		c.setActive(known)
	}
	return known != nil
}

// activate makes next the active configuration. applyDiff applies it to the instances. Until the
// result is saved, the previous configurations stay in the journal, so that a successor can
// complete the change.
func (c *configState) activate(next *config.Config, applyDiff func()) {
	if c.before == 0 {
		c.before = c.number
	}
	c.setActive(next)
	c.Store.SetMaxTotal(next.Superd.LogMaxTotal)
	c.number++
	number := c.number
	// First: queued records may be replaced by ones that refer to it
	c.recorder.QueueFirst(snapshot.ConfigKey(number), c.archived(next))
	c.saveSelf()
	applyDiff()
	c.dropBefore(number)
}

// dropBefore removes the configurations older than the active one, which has that number, when the
// effects of that are saved. Unsaved instances may have a definition that only an older one has.
func (c *configState) dropBefore(number uint64) {
	c.recorder.AfterSaving(func(unrecorded error) {
		switch {
		case c.number != number: // a newer one is active by now
			return
		case unrecorded != nil:
			c.Scope.After(handover.RetryPause, func() { c.dropBefore(number) })
			return
		}
		first := c.before
		c.before = 0
		c.saveSelf() // First: no record may refer to a removed configuration
		for old := first; old < number; old++ {
			c.recorder.Queue(snapshot.ConfigKey(old), nil)
		}
	})
}

// activateFirst records the configuration of a superd that has no predecessor's.
func (c *configState) activateFirst() {
	c.number++
	c.before = 0
	c.recorder.Queue(snapshot.ConfigKey(c.number), c.archived(c.active))
	c.saveSelf()
}

// removeRecords removes the configurations from the journal.
func (c *configState) removeRecords() {
	for number := c.number; number > 0 && number >= c.before; number-- {
		c.recorder.Queue(snapshot.ConfigKey(number), nil)
		if c.before == 0 {
			break
		}
	}
}

// archived returns the value that the journal has of a configuration. It is encoded when it is
// written, off the loop.
func (c *configState) archived(conf *config.Config) func() []byte {
	archive := c.options.Archive
	return func() []byte { return bytes.TrimRight(archive(conf), "\n") }
}
