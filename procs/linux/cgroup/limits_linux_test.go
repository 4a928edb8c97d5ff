package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/codec"
	"superd/procs/host"
)

// disk returns the number of a disk of this machine.
func disk(t *testing.T) (path, number string) {
	t.Helper()
	all, _ := filepath.Glob("/sys/block/*/dev")
	for _, file := range all {
		path := "/dev/" + filepath.Base(filepath.Dir(file))
		number, err := os.ReadFile(file)
		if _, serr := os.Stat(path); err == nil && serr == nil {
			return path, strings.TrimSpace(string(number))
		}
	}
	t.Skip("this machine has no disk with a name in /dev")
	return "", ""
}

// TestWriteLimits: only what differs is written, and what is no longer limited is reset, also for a
// cgroup of a predecessor.
func TestWriteLimits(t *testing.T) {
	n, half := new(int64(5000)), new(0.5)
	path, device := disk(t)
	full := config.Limits{Memory: n, MemoryHigh: n, Swap: new(int64(0)), CPU: half, CPUWeight: n, Tasks: n, IO: []codec.IOLimit{{Path: path, Write: n, ReadOps: n}}}
	fullFiles := map[string]string{
		"memory.max": "5000", "memory.oom.group": "1", "memory.high": "5000", "memory.swap.max": "0", "cpu.max": "50000 100000", "cpu.weight": "5000", "pids.max": "5000",
		"io.max": device + " rbps=max wbps=5000 riops=5000 wiops=max",
	}
	fresh := map[string]string{
		"memory.max": "max", "memory.oom.group": "0", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max 100000", "cpu.weight": "100", "pids.max": "max", "io.max": "",
	}
	for _, tt := range []struct {
		name   string
		there  map[string]string
		found  bool
		limits []config.Limits
		want   map[string]string
	}{
		{"a new cgroup", fresh, false, []config.Limits{full}, fullFiles},
		{"no limits", map[string]string{}, false, []config.Limits{{}}, map[string]string{}},
		{"no limits any more", fresh, false, []config.Limits{full, {}}, map[string]string{
			"memory.max": "max", "memory.oom.group": "0", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max", "cpu.weight": "100", "pids.max": "max", "io.max": device + " " + unlimited,
		}},
		{"a predecessor's", fullFiles, true, []config.Limits{full}, fullFiles},
		{"a predecessor's, less", fullFiles, true, []config.Limits{{Tasks: n}}, map[string]string{
			"memory.max": "max", "memory.oom.group": "0", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max", "cpu.weight": "100", "pids.max": "5000", "io.max": device + " " + unlimited,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.there {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var written active
			for _, limits := range tt.limits {
				var err error
				if written, err = writeLimits(dir, &limits, written, tt.found); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			for file := range tt.there {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				// A file of the kernel has only what was written last.
				got[file] = string(text[:min(len(text), len(tt.want[file]))])
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("files are %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLimitsThatCannotBeWritten: the error names the limit and what is missing.
func TestLimitsThatCannotBeWritten(t *testing.T) {
	dir, n := t.TempDir(), new(int64(1))
	for _, tt := range []struct {
		limits config.Limits
		want   string
	}{
		{config.Limits{Swap: n}, "limit swap: write " + dir + "/memory.swap.max: no such file or directory: this kernel does not count swap space"},
		{config.Limits{CPUWeight: n}, "limit cpu_weight: write " + dir + "/cpu.weight: no such file or directory"},
		{config.Limits{IO: []codec.IOLimit{{Path: dir + "/none", Read: n}}}, "limit io: find the device of " + dir + "/none: no such file or directory"},
		{config.Limits{IO: []codec.IOLimit{{Path: "/proc/self", Read: n}}}, "limit io: find the device of /proc/self: it is on no block device"},
	} {
		_, err := writeLimits(dir, &tt.limits, nil, false)
		if _, ok := errors.AsType[*host.SpawnError](err); !ok || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.limits, err, tt.want)
		}
	}
}

// TestDeviceOf: a partition, and a file on it, stand for the disk.
func TestDeviceOf(t *testing.T) {
	path, device := disk(t)
	if got, err := deviceOf(path); err != nil || got != device {
		t.Errorf("deviceOf(%s) = %q, %v, want %s", path, got, err, device)
	}
	partitions, _ := filepath.Glob("/sys/block/*/*/partition")
	for _, file := range partitions {
		disk, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "dev"))
		if err != nil {
			t.Fatal(err)
		}
		path := "/dev/" + filepath.Base(filepath.Dir(file))
		if got, err := deviceOf(path); !errors.Is(err, unix.ENOENT) && got != strings.TrimSpace(string(disk)) {
			t.Errorf("deviceOf(%s) = %q, %v, want %s", path, got, err, disk)
		}
	}
}

// TestLimitsIn: each limit of a cgroup names its controller.
func TestLimitsIn(t *testing.T) {
	n := new(int64)
	all := limitsIn(&config.Limits{Memory: n, MemoryHigh: n, Swap: n, CPU: new(float64), CPUWeight: n, Tasks: n, IO: make([]codec.IOLimit, 1)})
	want := []limited{{"memory", "memory"}, {"memory_high", "memory"}, {"swap", "memory"}, {"cpu", "cpu"}, {"cpu_weight", "cpu"}, {"tasks", "pids"}, {"io", "io"}}
	if !slices.Equal(all, want) || len(limitsIn(&config.Limits{})) != 0 {
		t.Errorf("limits = %v, want %v", all, want)
	}
}
