package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { modes["probe"] = mode{-1, probe} }

// probes are what a sandbox may forbid, by name; each has an argument.
var probes = map[string]func(arg string) error{
	"write": func(dir string) error {
		file, err := os.CreateTemp(dir, ".probe-")
		if err != nil {
			return err
		}
		file.Close()
		return os.Remove(file.Name())
	},
	"read": func(path string) error {
		_, err := os.ReadFile(path)
		if errors.Is(err, unix.EISDIR) {
			_, err = os.ReadDir(path)
		}
		return err
	},
	// writes nothing
	"open": func(path string) error {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			file.Close()
		}
		return err
	},
	"stat": func(path string) error {
		_, err := os.Stat(path)
		return err
	},
	"execute": func(path string) error { return exec.Command(path).Run() },
	// root: what a set-user-ID copy of id prints
	"suid": func(path string) error {
		out, err := exec.Command(path, "-u").Output()
		if err == nil && string(out) != "0\n" {
			err = unix.EPERM
		}
		return err
	},
	"chown": func(path string) error { return os.Chown(path, 2, 2) },
	"mknod": func(dir string) error {
		path := filepath.Join(dir, fmt.Sprint("probe", os.Getpid()))
		defer os.Remove(path)
		return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	},
	"bind": func(port string) error {
		var plain net.ListenConfig // Landlock's rules hold for TCP only
		plain.SetMultipathTCP(false)
		listener, err := plain.Listen(context.Background(), "tcp4", "127.0.0.1:"+port)
		if err == nil {
			listener.Close()
		}
		return err
	},
	"connect": func(port string) error {
		conn, err := net.Dial("tcp4", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err
	},
	"priority": func(string) error {
		_, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		return err
	},
	"swapoff": func(path string) error {
		name, err := unix.BytePtrFromString(path)
		if err != nil {
			return err
		}
		if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
			return errno
		}
		return nil
	},
}

// probe tries each NAME=ARGUMENT and prints NAME with "ok" or the error's name.
func probe(args []string) error {
	for _, arg := range args {
		name, argument, _ := strings.Cut(arg, "=")
		try, ok := probes[name]
		if !ok {
			return fmt.Errorf("no probe %q", name)
		}
		said := "ok"
		if err := try(argument); err != nil {
			said = err.Error()
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				said = unix.ErrnoName(errno)
			}
		}
		fmt.Println(name, said)
	}
	return nil
}
