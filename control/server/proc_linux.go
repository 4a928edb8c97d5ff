package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// userHz is the unit of times in /proc: 100 per second on every architecture that Go runs on (time(7)).
const userHz = 100

var errStat = errors.New("not in the form of proc_pid_stat(5)")

// A usage is what a process has used so far.
type usage struct {
	start uint64        // clock ticks from boot to its start: with the pid, its identity
	cpu   time.Duration // user and system time of all its threads
	rss   int64         // bytes of resident memory
}

// readUsage reads /proc/PID/stat.
func readUsage(pid int) (usage, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	var buf [1024]byte // a line of 52 numbers is shorter
	n, err := readSmall(path, buf[:])
	if err != nil {
		return usage{}, fmt.Errorf("read %s: %w", path, err)
	}
	return parseStat(buf[:n])
}

// readSmall reads the beginning of a file of /proc by plain system calls: os.File would register each one
// with the runtime's poller first, and status of a thousand programs reads a thousand of them.
func readSmall(path string, buf []byte) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return retry(func() (int, error) { return unix.Read(fd, buf) })
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}

// parseStat reads fields 14 (utime), 15 (stime), 22 (starttime) and 24 (rss, pages), of proc_pid_stat(5).
// The second field, the command's name in parentheses, may hold anything, also spaces and parentheses.
func parseStat(line []byte) (usage, error) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return usage{}, errStat
	}
	const third, last = 3, 24
	var values [last + 1]uint64
	field := third
	for text := range bytes.FieldsSeq(line[end+1:]) {
		if field >= 14 {
			v, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil && field != 18 && field != 19 && field != 21 { // priority, nice, itrealvalue: may be negative
				return usage{}, errStat
			}
			values[field] = v
		}
		if field++; field > last {
			ticks := values[14] + values[15]
			return usage{
				start: values[22],
				cpu:   time.Duration(ticks) * (time.Second / userHz),
				rss:   int64(values[24]) * int64(os.Getpagesize()),
			}, nil
		}
	}
	return usage{}, errStat
}
