package threads

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/internal/privilege"
)

// A room is how many more processes and threads there may be.
type room struct {
	processes int
	limit     string // the limit that applies
}

// roomHere returns the current room, by the limits of the user and of the visible cgroups.
//
// Source: man 2 getrlimit, Documentation/admin-guide/cgroup-v2.rst.
func roomHere() room {
	r := room{processes: math.MaxInt}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err == nil && limit.Cur < 1<<20 && !privilege.ManyProcesses() {
		r.processes, r.limit = max(int(limit.Cur)-threadsOf(os.Getuid()), 0), fmt.Sprintf("the limit of processes (RLIMIT_NPROC, %d)", limit.Cur)
	}
	memberships, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return r
	}
	for line := range strings.Lines(string(memberships)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		mount := "/sys/fs/cgroup"
		switch {
		case controllers == "pids":
			mount = "/sys/fs/cgroup/pids"
		case id != "0":
			continue
		}
		for ; ; dir = path.Dir(dir) {
			if cgroup := path.Join(mount, dir); roomIn(cgroup) < r.processes {
				r = room{roomIn(cgroup), cgroup + "/pids.max"}
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return r
}

// roomIn returns the room in one cgroup.
func roomIn(dir string) int {
	most, err := readNumber(dir + "/pids.max")
	if err != nil {
		return math.MaxInt // "max", or no limit
	}
	now, err := readNumber(dir + "/pids.current")
	if err != nil {
		return math.MaxInt
	}
	return max(most-now, 0)
}

func readNumber(name string) (int, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// threadsOf returns the number of visible threads of a user.
func threadsOf(uid int) int {
	count := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		var stat unix.Stat_t
		dir := "/proc/" + entry.Name()
		if c := entry.Name()[0]; c < '0' || c > '9' || unix.Stat(dir+"/status", &stat) != nil || int(stat.Uid) != uid {
			continue
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue
		}
		if _, rest, ok := strings.Cut(string(status), "\nThreads:\t"); ok {
			digits, _, _ := strings.Cut(rest, "\n")
			n, _ := strconv.Atoi(digits)
			count += n
		}
	}
	return count
}
