package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// roomBeside returns how many bytes more the file system of f can take; 0 when that can't be told.
func roomBeside(f *os.File) int64 {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return 0
	}
	return int64(fs.Bavail) * fs.Bsize
}
