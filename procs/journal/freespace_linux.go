package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace returns the free space of the file system of f in bytes; 0 if unknown.
func freeSpace(f *os.File) int64 {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return 0
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}
