package enforce

import (
	"strconv"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// mapIDs makes one user and one group known in the user namespace in which this process was
// started. Without the right to change groups the namespace must not allow it.
//
// Source: user_namespaces(7).
func mapIDs(ids *sandbox.IDs) error {
	line := func(id int) string { return strconv.Itoa(id) + " " + strconv.Itoa(id) + " 1\n" }
	for _, file := range [][2]string{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", line(ids.UID)},
		{"/proc/self/gid_map", line(ids.GID)},
	} {
		if err := write(file[0], file[1]); err != nil {
			return err
		}
	}
	return nil
}

func write(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// ownNetwork moves the thread into a new network namespace, whose loopback device it starts.
func ownNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback)
}
