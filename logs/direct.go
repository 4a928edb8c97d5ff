package logs

import (
	"superd/internal/syscalls"
	"superd/logs/segment"
)

// OpenDirect opens the log file of a stream for a program that writes to it itself, with the format
// [Direct]. It returns a descriptor that appends.
//
// A new file belongs to the user uid, unless the options name an owner: the program may open it
// again, for example by /dev/stdout. The owner of an existing file stays. If other users may have
// put it there, it is refused unless it belongs to uid or log.owner. Otherwise the program could
// get write access that it must not have.
//
// It may block on the file system. Safe for concurrent use.
func (c *Collector) OpenDirect(which Stream, uid uint32) (fd int, err error) {
	o := c.setting()
	if own := o.stderrSetting(); which == Stderr && own != nil {
		o = own
	}
	if fd, err = segment.OpenDirect(o.Path, &o.fileOptions, uid); err != nil {
		return -1, err
	}
	c.shared.Lock()
	segs := c.shared.streams[0].file.Log()
	for _, s := range c.shared.streams {
		if s.which == which {
			segs = s.file.Log()
		}
	}
	first := c.shared.awaitsDirectOpen[which]
	c.shared.awaitsDirectOpen[which] = false
	c.shared.Unlock()
	// the options are not active yet, as output of the preceding run is still written
	if segs.Path() != o.Path {
		return fd, nil
	}
	if err := segs.RecordStat(fd); err != nil {
		syscalls.Close(fd)
		return -1, err
	}
	if first { // and not another process of the same run
		segs.BeginRun()
		c.reportRunStart()
	}
	return fd, nil
}
