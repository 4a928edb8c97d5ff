package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	modes["probe"] = mode{-1, probe}
	// the same, and stay alive
	modes["probe-stay"] = mode{-1, func(args []string) error {
		if err := probe(args); err != nil {
			return err
		}
		return live(syscall.SIGTERM)
	}}
}

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
		if os.Geteuid() == 0 {
			return errors.New("root already")
		}
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
	"raw-socket": func(string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"netlink": func(string) error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"map-code": func(string) error {
		_, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	},
	"written-code": func(string) error {
		memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		return unix.Mprotect(memory, unix.PROT_EXEC)
	},
	"mount": func(dir string) error {
		runtime.LockOSThread() // never unlocked: its mount namespace ends with it
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	},
	// a process whose pid is in a file
	"trace": func(path string) error {
		pid, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
		if err != nil {
			return err
		}
		return trace(number)
	},
	"trace-child": func(string) error {
		child := exec.Command("/proc/self/exe", "deaf")
		if err := child.Start(); err != nil {
			return err
		}
		defer func() {
			_ = child.Process.Kill()
			_ = child.Wait() // it was killed
		}()
		return trace(child.Process.Pid)
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

// trace attaches to a process and detaches again.
func trace(pid int) error {
	runtime.LockOSThread() // the thread that attaches is the tracer
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
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
