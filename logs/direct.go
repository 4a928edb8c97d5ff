package logs

import "time"

// directLook is how often a follower looks whether a program has written into its file by itself.
const directLook = 200 * time.Millisecond

// OpenDirect opens the log file of a stream for a program that writes to it by itself, as the format [Direct] has it, and returns a
// descriptor that appends. A file that it makes belongs to the user uid, unless the options name another: the program may open it anew, as by
// /dev/stdout. One that is there stays whose it is: in a directory where that user may write, its name may be a link to anybody's. It may block on
// the file system. From any goroutine.
func (c *Capture) OpenDirect(which Stream, uid uint32) (fd int, err error) {
	o := c.setting()
	if own := o.ofStderr(); which == Stderr && own != nil {
		o = own
	}
	fd, made, err := openOrMake(o.Path, appending)
	if err != nil {
		return -1, err
	}
	err = setBlocking(fd)
	var info fileInfo
	if err == nil {
		info, err = statFD(fd)
	}
	if err == nil && info.regular {
		if made && o.Owner == "" && uid != info.uid && changeOwner(fd, uid, info.gid) == nil { // else it writes there all the same
			info.uid = uid
		}
		err = o.giveAway(fd, info)
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	c.mu.Lock()
	ch := &c.streams[0].file.chain
	for _, s := range c.streams {
		if s.which == which {
			ch = &s.file.chain
		}
	}
	first := c.newRun[which]
	c.newRun[which] = false
	c.mu.Unlock()
	if ch.path != o.Path { // what the options say is not in force yet, since output of the run before is written
		return fd, nil
	}
	if err := ch.look(func() (fileInfo, error) { return statFD(fd) }); err != nil {
		closeFD(fd)
		return -1, err
	}
	if first { // and not another process of the same run
		ch.beginRun()
		c.tellRun()
	}
	return fd, nil
}

// refresh looks how far the newest file has grown where superd is not the one who writes it. It may block on the file system.
func (ch *chain) refresh() {
	if !ch.newest().unseen {
		return
	}
	if ch.newest().format == Direct {
		_ = ch.look(func() (fileInfo, error) { return statPath(ch.path) }) // else it is as it was
		return
	}
	if info, err := statPath(ch.path); err == nil {
		ch.seen(info)
	}
}

// look takes note of the newest file, which others write to, as stat tells of it: one at a time does, since a file that was longer at another one's
// look than at this one counts as truncated.
func (ch *chain) look(stat func() (fileInfo, error)) error {
	ch.disk.Lock()
	defer ch.disk.Unlock()
	info, err := stat()
	if err == nil {
		ch.opened(info)
	}
	return err
}
