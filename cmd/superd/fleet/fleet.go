// Package fleet runs a command of superd on several hosts, which superd reaches by ssh.
package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"superd/cmd/superd/report"
	"superd/control/remote"
)

const (
	// maxConcurrentHosts bounds how many hosts are asked at a time: each takes a process of ssh.
	maxConcurrentHosts = 64

	// DefaultTimeout is the time to wait for a connection to a host.
	DefaultTimeout = 15 * time.Second
)

// Flags say on which hosts a command runs.
type Flags struct {
	Names   []string
	File    string
	Timeout time.Duration
	Single  *remote.Host // the one host that a copy of the command is for; nil: none
}

// Args returns the flags as they were given.
func (f *Flags) Args() (args []string) {
	if len(f.Names) > 0 {
		args = append(args, "--host", strings.Join(f.Names, ","))
	}
	if f.File != "" {
		args = append(args, "--hosts-file", f.File)
	}
	if f.Timeout != DefaultTimeout {
		args = append(args, "--host-timeout", f.Timeout.String())
	}
	return args
}

// Given reports whether the command runs on hosts.
func (f *Flags) Given() bool { return len(f.Names) > 0 || f.File != "" }

// Hosts returns the hosts to connect to, each once, in the order given. args are those of the
// proxy.
func (f *Flags) Hosts(args []string) ([]*remote.Host, error) {
	names := slices.Clone(f.Names)
	if f.File != "" {
		listed, err := readHosts(f.File)
		if err != nil {
			return nil, err
		}
		names = append(names, listed...)
	}
	if f.Timeout <= 0 {
		return nil, errors.New("read --host-timeout: must be positive, got 0")
	}
	var all []*remote.Host
	for i, name := range names {
		if err := remote.CheckName(name); err != nil {
			return nil, fmt.Errorf("read --host: %w", err)
		}
		if !slices.Contains(names[:i], name) {
			all = append(all, &remote.Host{Name: name, SSH: os.Getenv("SUPERD_SSH"), Args: args, Timeout: f.Timeout})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read --hosts-file: %s names no host", f.File)
	}
	return all, nil
}

// readHosts returns the hosts of a file: one a line, without empty lines and comments.
func readHosts(path string) (names []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read --hosts-file: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "#")
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read --hosts-file: %w", err)
	}
	return names, nil
}

// Run calls run for all hosts and prints their results in the order of hosts, each as an object if
// asJSON. result returns the message of an error, on one line, and its exit status. The status is
// the highest of all.
func Run(
	hosts []*remote.Host, stdout, stderr io.Writer, asJSON bool,
	run func(*remote.Host, *report.Host) error, result func(error) (message string, status int),
) (status int, err error) {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	fleet := report.NewFleet(stdout, stderr, names, asJSON)
	slots := make(chan struct{}, maxConcurrentHosts)
	var running sync.WaitGroup
	for i, h := range hosts {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out := fleet.Host(i)
			out.End(result(run(h, out)))
		})
	}
	running.Wait()
	return fleet.Finish()
}
