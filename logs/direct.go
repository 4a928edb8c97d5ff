package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// directPoll is how often a follower checks whether a program has written into its file itself.
const directPoll = 200 * time.Millisecond

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
	f, err := (location{o.Path, o.Options}).openLog(appending, uid)
	if err != nil {
		return -1, err
	}
	fd = f.fd
	err = setBlocking(fd)
	if err == nil && f.info.regular {
		switch info := &f.info; {
		case f.created && o.Owner == "" && uid != info.uid && changeOwner(fd, uid, info.gid) == nil:
			// if changeOwner fails, the program can write there all the same
			info.uid = uid
		case f.exposed != "" && uid != 0 && uid != info.uid && (info.uid == 0 || o.Owner == ""):
			err = fmt.Errorf("open %s for user %d: it belongs to user %d, and %s: remove it, or change its owner to user %d",
				o.Path, uid, info.uid, f.exposed, uid)
		}
		if err == nil {
			err = o.setOwnership(f)
		}
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	c.mu.Lock()
	segs := &c.streams[0].file.segments
	for _, s := range c.streams {
		if s.which == which {
			segs = &s.file.segments
		}
	}
	first := c.awaitsDirectOpen[which]
	c.awaitsDirectOpen[which] = false
	c.mu.Unlock()
	// the options are not active yet, as output of the preceding run is still written
	if segs.path != o.Path {
		return fd, nil
	}
	if err := segs.recordStat(func() (fileInfo, error) { return statFD(fd) }); err != nil {
		closeFD(fd)
		return -1, err
	}
	if first { // and not another process of the same run
		segs.beginRun()
		c.reportRunStart()
	}
	return fd, nil
}

// refresh updates the size of the current file if superd is not its writer. It may block on the
// file system.
func (segs *segments) refresh() {
	if !segs.outputEnd().mayBeStale {
		return
	}
	if segs.outputEnd().format == Direct {
		// after an error the recorded size stays
		_ = segs.recordStat(func() (fileInfo, error) { return segs.location().stat("") })
		return
	}
	switch info, err := segs.location().stat(""); {
	case err == nil:
		segs.recordFound(info)
	case errors.Is(err, fs.ErrNotExist):
		segs.recordAbsent()
	}
}

// recordStat records the size of the current file, to which others write, as stat reports it. It
// holds disk during stat: with concurrent calls, a smaller size that is recorded later would count
// as a truncation.
func (segs *segments) recordStat(stat func() (fileInfo, error)) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	info, err := stat()
	if err == nil {
		segs.recordOpened(info)
	}
	return err
}
