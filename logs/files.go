package logs

import (
	"slices"

	"superd/logs/segment"
	"superd/logs/sink"
)

// applyOptions applies Reopen and SetOptions.
func (c *Collector) applyOptions() {
	if !c.reopen.Swap(false) {
		return
	}
	before := c.files()
	for _, f := range before {
		f.Close()
	}
	c.shared.Lock()
	c.chooseFiles()
	for _, f := range before {
		if !slices.ContainsFunc(c.shared.streams, func(s *stream) bool { return s.file == f }) {
			f.Release()
		}
	}
	c.shared.Unlock()
	c.notifyWatchers() // the log is now one that nobody else reports to grow
}

// chooseFiles gives each stream its file by the options. The caller holds the lock.
func (c *Collector) chooseFiles() {
	first := c.shared.streams[0]
	if first.file == nil || first.file.set.Sink != c.shared.options.Sink || first.file.set.Address != c.shared.options.Address {
		c.shared.outlet = c.shared.outlet.replace(c.store.sinks.Open(c.shared.options.Sink, c.shared.options.Address))
	}
	if first.file == nil {
		first.file = c.inline.file.open(c.shared.options, c.store.now, &c.store.archive)
	} else {
		first.file = c.fileFor(first.file, c.shared.options)
	}
	for _, s := range c.shared.streams[1:] {
		switch own := c.shared.options.stderrSetting(); {
		case own == nil:
			s.file = first.file
		case s.file == first.file:
			s.file = c.newOutput(own)
		default:
			s.file = c.fileFor(s.file, own)
		}
	}
}

func (c *Collector) newOutput(o *setting) *output {
	return new(output).open(o, c.store.now, &c.store.archive)
}

// fileFor returns f with the setting o, or another file if f is nil or o names another path.
func (c *Collector) fileFor(f *output, o *setting) *output {
	if f == nil || o.Path != f.Path() {
		return c.newOutput(o)
	}
	f.set = o
	f.SetOptions(&o.fileOptions)
	return f
}

// files returns the files of the streams, each once.
func (c *Collector) files() []*output {
	c.shared.Lock()
	defer c.shared.Unlock()
	var list []*output
	for _, s := range c.shared.streams {
		if !slices.Contains(list, s.file) {
			list = append(list, s.file)
		}
	}
	return list
}

// segments returns the segments of the log file, and whether they are final.
func (c *Collector) segments() (segs *segment.Log, final bool) {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.shared.streams[0].file.Log(), c.shared.released
}

func (c *Collector) newStream(which Stream) *stream {
	s := new(stream)
	s.init(c, which)
	return s
}

func (s *stream) init(c *Collector, which Stream) {
	s.c, s.which, s.writeErrors = c, which, &noWriteErrors
}

func (c *Collector) addStream(which Stream) *stream {
	s := c.newStream(which)
	c.shared.Lock()
	defer c.shared.Unlock()
	s.file = c.shared.streams[0].file // until the draining goroutine calls applyOptions
	c.shared.streams = append(c.shared.streams[:len(c.shared.streams):len(c.shared.streams)], s)
	c.reopen.Store(true)
	return s
}

// replace returns the outlet for another sink, nil for files. o may be nil.
func (o *outlet) replace(to sink.Sink) *outlet {
	if o != nil {
		o.Close()
	}
	switch {
	case to == nil:
		return nil
	case o == nil:
		return &outlet{Sink: to}
	}
	return &outlet{to, o.recent, o.beforeRun}
}
