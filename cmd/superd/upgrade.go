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
	"superd/crashpoint"
	"superd/keeper"
	"superd/pidfd"
)

const (
	dryRunTime  = 10 * time.Second // for each step of a dry run
	joinWorkers = 5 * time.Second  // for starts under way
	writeTime   = 5 * time.Second  // for what is known to be written down
	writePause  = 2 * time.Millisecond
)

// upgrade prepares to execute another binary in superd's place: its own file, which may be another by now, or the one given. ready
// is called on the loop; what it gets does it. Nothing has changed before.
func (d *daemon) upgrade(binary string, ready func(server.Upgrade, error)) {
	if d.upgrading {
		ready(server.Upgrade{}, errors.New("an upgrade is under way already"))
		return
	}
	if err := d.ending(); err != nil {
		ready(server.Upgrade{}, err)
		return
	}
	d.upgrading = true
	go func() {
		to, err := d.dryRun(&binary)
		release := func() {}
		if err == nil {
			release = d.kernel.HoldForks(joinWorkers)
		}
		answer := control.Upgrade{Pid: os.Getpid(), Binary: binary, From: version, To: to, WayBack: d.link.Pid() != 0}
		d.loop.Post(func() {
			if err == nil {
				err = d.ending()
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

// ending returns why no other binary is executed while superd shuts down: nobody gains by it, and keeper and systemd know of the shutdown
// already, by this process.
func (d *daemon) ending() error {
	if d.supervisor.Info().ShuttingDown {
		return errors.New("superd is shutting down")
	}
	return nil
}

// execute is the upgrade itself. It returns only if it failed.
func (d *daemon) execute(binary, to string, release func()) {
	if err := d.ending(); err != nil {
		d.notUpgraded(err, release)
		return
	}
	way := "there is no way back: superd runs without a keeper"
	if d.link.Pid() != 0 {
		way = "the keeper starts this one again if the new one is not ready soon"
	}
	d.log.Info("upgrading", "binary", binary, "from", version, "to", to, "way_back", way)
	d.executeWhenWritten(binary, release, d.loop.Now()+writeTime)
}

// executeWhenWritten executes the binary at an instant at which the journal has all that is known, and the keeper what it is to keep. Events and
// superd's own messages are waited for, too, but only until then.
func (d *daemon) executeWhenWritten(binary string, release func(), until time.Duration) {
	d.supervisor.Write()
	late := d.loop.Now() >= until
	again := func() {
		d.loop.Root().After(writePause, func() { d.executeWhenWritten(binary, release, until) })
	}
	err := d.ending()
	switch {
	case err != nil:
	case d.journal.Idle() && d.link.Idle() && (late || d.events.Idle() && d.messages.Idle()):
		crashpoint.Here("upgrade.before-exec")
		if err = d.link.Upgrade(binary, os.Args, os.Environ()); errors.Is(err, keeper.ErrSignalled) && !late {
			again()
			return
		}
	case late:
		err = fmt.Errorf("what the new binary must know can't be written down: no end within %v", writeTime)
	default:
		again()
		return
	}
	d.notUpgraded(err, release)
}

func (d *daemon) notUpgraded(err error, release func()) {
	d.log.Error("not upgraded", "error", err)
	d.upgrading = false
	release()
}

// dryRun sees that a binary is a superd which accepts the configuration, and returns its version. binary becomes an absolute path; empty, it
// is superd's own.
func (d *daemon) dryRun(binary *string) (version string, err error) {
	if *binary == "" {
		own, err := os.Readlink("/proc/self/exe")
		if err != nil {
			return "", fmt.Errorf("find superd's binary: %w", err)
		}
		*binary = strings.TrimSuffix(own, " (deleted)") // it was replaced, which is what upgrades are for
	}
	if !filepath.IsAbs(*binary) {
		return "", fmt.Errorf("upgrade to %s: not an absolute path", *binary)
	}
	output, exit, err := d.kernel.Run(dryRunTime, *binary, "version", "--json")
	if err := dryRunError(*binary, "version", output, exit, err); err != nil {
		return "", err
	}
	var told control.Version
	if err := json.Unmarshal(output, &told); err != nil || told.Version == "" {
		return "", fmt.Errorf("upgrade to %s: it is not a superd: %q", *binary, firstLine(output))
	}
	output, exit, err = d.kernel.Run(dryRunTime, *binary, "check", "-c", d.configPath)
	return told.Version, dryRunError(*binary, "check", output, exit, err)
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
