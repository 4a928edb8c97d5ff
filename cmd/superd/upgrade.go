//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"superd/control"
	"superd/control/server"
	"superd/internal/failpoint"
	"superd/keeper"
	"superd/pidfd"
	"superd/procs"
)

const (
	dryRunTimeout = 10 * time.Second // for each step of a dry run
	joinTimeout   = 5 * time.Second  // for starts under way
	writeTimeout  = 5 * time.Second  // for records, events and messages to be written
	retryPause    = 2 * time.Millisecond
)

// upgrade prepares to execute another binary in this process: the one given, or for "" superd's own
// file, which may have been replaced. ready is called on the loop; the [server.Upgrade] that it
// gets then executes the binary. Until then nothing changes.
func (d *daemon) upgrade(binary string, ready func(server.Upgrade, error)) {
	if d.upgrading {
		ready(server.Upgrade{}, errors.New("an upgrade is already in progress"))
		return
	}
	if err := d.refuseInShutdown(); err != nil {
		ready(server.Upgrade{}, err)
		return
	}
	d.upgrading = true
	go func() {
		to, err := d.dryRun(&binary)
		release := func() {}
		if err == nil {
			release = d.kernel.BlockForks(joinTimeout)
		}
		answer := control.Upgrade{Pid: os.Getpid(), Binary: binary, From: version, To: to, Reverts: d.link.Pid() != 0}
		d.loop.Post(func() {
			if err == nil {
				err = d.refuseInShutdown()
			}
			if err != nil {
				d.upgrading = false
				release()
				ready(server.Upgrade{}, err)
				return
			}
			ready(server.Upgrade{Answer: answer, Go: func() { d.execute(binary, to, release) }}, nil)
		})
	}()
}

// refuseInShutdown returns an error if superd shuts down. Then no other binary is executed: keeper
// and systemd have already been notified of the shutdown by this process.
func (d *daemon) refuseInShutdown() error {
	if d.supervisor.Info().ShuttingDown {
		return errors.New("superd is shutting down")
	}
	return nil
}

// execute begins the upgrade itself. release lets starts continue if it fails.
func (d *daemon) execute(binary, to string, release func()) {
	if err := d.refuseInShutdown(); err != nil {
		d.upgradeFailed(err, release)
		return
	}
	revert := "superd runs without a keeper: a failed upgrade is not reverted"
	if d.link.Pid() != 0 {
		revert = "the keeper restarts this binary if the new one is not ready in time"
	}
	d.log.Info("upgrading", "binary", binary, "from", version, "to", to, "way_back", revert)
	d.executeWhenWritten(binary, release, d.loop.Now()+writeTimeout)
}

// executeWhenWritten executes the binary when the journal is written and the keeper has received
// what it stores. Until the time until, it also waits for events and superd's own messages; from
// then on, it fails if the journal or the keeper is late.
func (d *daemon) executeWhenWritten(binary string, release func(), until time.Duration) {
	d.supervisor.Write()
	late := d.loop.Now() >= until
	retry := func() {
		d.loop.Root().After(retryPause, func() { d.executeWhenWritten(binary, release, until) })
	}
	err := d.refuseInShutdown()
	switch {
	case err != nil:
	case d.journal.Idle() && d.link.Idle() && (late || d.events.Idle() && d.messages.Idle()):
		failpoint.Here("upgrade.before-exec")
		resume := procs.PauseTerminals(d.supervisor)
		err = d.link.Upgrade(binary, os.Args, os.Environ())
		resume()
		if errors.Is(err, keeper.ErrSignalled) && !late {
			retry()
			return
		}
	case late:
		err = fmt.Errorf("write journal for the new binary: not done within %v", writeTimeout)
	default:
		retry()
		return
	}
	d.upgradeFailed(err, release)
}

func (d *daemon) upgradeFailed(err error, release func()) {
	d.log.Error("not upgraded", "error", err)
	d.upgrading = false
	release()
}

// dryRun checks that a binary is a superd that accepts the configuration, and returns its version.
// It sets an empty binary to the path of superd's own file.
func (d *daemon) dryRun(binary *string) (version string, err error) {
	if *binary == "" {
		own, err := os.Readlink("/proc/self/exe")
		if err != nil {
			return "", fmt.Errorf("find superd's binary: %w", err)
		}
		// Deleted if it has been replaced, as usual before an upgrade.
		*binary = strings.TrimSuffix(own, " (deleted)")
	}
	if !filepath.IsAbs(*binary) {
		return "", fmt.Errorf("upgrade to %s: not an absolute path", *binary)
	}
	output, exit, err := d.kernel.Run(dryRunTimeout, *binary, "version", "--json")
	if err := dryRunError(*binary, "version", output, exit, err); err != nil {
		return "", err
	}
	var reported control.Version
	if err := json.Unmarshal(output, &reported); err != nil || reported.Version == "" {
		return "", fmt.Errorf("upgrade to %s: not a superd: %q", *binary, firstLine(output))
	}
	output, exit, err = d.kernel.Run(dryRunTimeout, *binary, "check", "-c", d.configPath)
	return reported.Version, dryRunError(*binary, "check", output, exit, err)
}

func dryRunError(binary, command string, output []byte, exit pidfd.Exit, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("upgrade to %s: %w", binary, err)
	case !exit.Success():
		return fmt.Errorf("upgrade to %s: its `%s` ended with %v: %s", binary, command, exit, firstLine(output))
	}
	return nil
}

func firstLine(output []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return line
}
