package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config/codec"
	"superd/procs/host"
)

// ioFile has a line for each device: "8:0 rbps=1000 wbps=max riops=max wiops=max".
//
// Source: io.max in Documentation/admin-guide/cgroup-v2.rst.
const ioFile = "io.max"

// unlimited is the line, without the device, of one that has no limit.
const unlimited = "rbps=max wbps=max riops=max wiops=max"

// ioSetting returns the setting for one device.
func ioSetting(l *codec.IOLimit) (setting, error) {
	device, err := deviceOf(l.Path)
	if err != nil {
		return setting{}, &host.SpawnError{Stage: "limit io: find the device of", Path: l.Path, Err: cause(err), Fault: host.FaultOf(err)}
	}
	var rates []string
	for _, rate := range []struct {
		key   string
		value *int64
	}{{"rbps", l.Read}, {"wbps", l.Write}, {"riops", l.ReadOps}, {"wiops", l.WriteOps}} {
		text := "max"
		if rate.value != nil {
			text = strconv.FormatInt(*rate.value, 10)
		}
		rates = append(rates, rate.key+"="+text)
	}
	return setting{"io", ioFile, device, strings.Join(rates, " "), unlimited}, nil
}

// endedIO returns the settings that end the limits of devices that are not in all.
func (a active) endedIO(all []setting) (ended []setting) {
	for name := range a {
		device, isDevice := strings.CutPrefix(name, ioFile+" ")
		if isDevice && !slices.ContainsFunc(all, func(s setting) bool { return s.device == device }) {
			ended = append(ended, setting{"io", ioFile, device, unlimited, unlimited})
		}
	}
	return ended
}

// readIO returns the lines of a cgroup, by device.
func readIO(dir string) map[string]string {
	text, err := os.ReadFile(filepath.Join(dir, ioFile))
	if err != nil {
		return nil
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if device, rates, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			lines[device] = rates
		}
	}
	return lines
}

// deviceOf returns the number, "8:0", of the disk that path names, or that it is on. The kernel
// limits whole disks only.
func deviceOf(path string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return "", err
	}
	number := stat.Dev
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		number = stat.Rdev
	}
	if unix.Major(number) == 0 {
		return "", errors.New("it is on no block device, but on one of several disks, of a network or in memory: name the device, such as /dev/sda")
	}
	device := fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number))
	sys := "/sys/dev/block/" + device
	if _, err := os.Stat(sys + "/partition"); err != nil {
		return device, nil
	}
	// sys is a link to the directory of the partition, in that of the disk.
	disk, err := os.ReadFile(sys + "/../dev")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(disk)), nil
}
