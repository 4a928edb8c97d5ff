package keeper

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// Names of descriptors that are the keeper's own business, beside those that the supervisor has stored.
const (
	linkFile     = "keeper"
	watchdogFile = "watchdog"
)

// environment variable of the supervisor: the keeper's pid.
const keeperVariable = "SUPERD_KEEPER"

// Run is the life of a keeper. It returns the exit status that the supervisor has announced.
func Run(o Options) (status int, err error) {
	k := &Keeper{options: o, log: o.Log, manager: o.Manager}
	for _, name := range fdstore.InTurn(o.Files) {
		k.store.Put(name, o.Files[name])
	}
	if k.loop, err = loop.New(); err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	again, err := k.open()
	if err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	k.sweep()   // who has ended before this process became the keeper
	if !again { // else there is a supervisor; or it has just been swept, and that is dealt with
		k.start()
	}
	if o.Begun != nil {
		o.Begun()
	}
	if err := k.loop.Run(); err != nil {
		return 0, err
	}
	return k.status, nil
}

// open makes what lives as long as the keeper. It reports whether the keeper has executed another binary, and goes on with the supervisor it had.
func (k *Keeper) open() (again bool, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, fmt.Errorf("become child subreaper: %w", err)
	}
	if again, err = k.inherit(); err != nil {
		return false, err
	}
	if !again {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return false, fmt.Errorf("make socketpair: %w", err)
		}
		k.channel, k.theirs = pair[0], pair[1]
	}
	k.receiver, k.unread = fdstore.NewReceiver(k.channel), fdstore.NewReceiver(k.theirs)
	root := k.loop.Root()
	// This watch, which is never called, keeps channel its place in the epoll: so to stop and to begin listening can't fail.
	if _, err := root.OnHangup(k.channel, func() {}); err != nil {
		return false, err
	}
	if err := k.listen(); err != nil {
		return false, err
	}
	if err := k.watchdog.open(k); err != nil {
		return false, err
	}
	if err := k.options.Signals.Watch(root, k.onSignal); err != nil {
		return false, err
	}
	if again {
		k.attend()
		k.log.Info("the keeper runs the new binary, too")
		k.becomeSmallSoon()
	}
	return again, nil
}

// start starts a supervisor.
func (k *Keeper) start() {
	k.restart = nil
	k.life = life{}
	k.listening = true
	if !k.first() {
		k.send(keyResume + "=1")
	}
	k.tell() // before it is there, so that it finds all of it when it looks for the first time
	files := k.store.Files()
	files[linkFile] = k.theirs
	if k.watchdog.fd >= 0 {
		files[watchdogFile] = k.watchdog.fd
	}
	fds, env := fdstore.Handover(files, childEnvironment(k.options.Env))
	path, err := signals.Executable()
	if err == nil {
		k.supervisor, err = pidfd.Spawn(&pidfd.Attr{Path: path, Args: k.options.Args, Env: env, Files: append([]int{0, 1, 2}, fds...), CgroupFD: -1, Room: k.options.Room, OpenFiles: k.options.OpenFiles})
	}
	if err != nil {
		k.takeBack()
		k.crashes++
		pause := k.pause()
		k.log.Error("superd not started", "error", err, "again_in", pause)
		k.restart = k.loop.Root().After(pause, k.start)
		return
	}
	k.log.Debug("keeper started a supervisor", "pid", k.supervisor.Pid(), "crashes", k.crashes)
	k.attend()
}

// attend watches the supervisor, which has just been started or taken over.
func (k *Keeper) attend() {
	k.listening = true
	k.started = k.loop.Now()
	k.scope = k.loop.Root().Child()
	if _, err := k.scope.OnReadable(k.supervisor.FD(), k.reap); err != nil {
		k.log.Error("keeper can't watch the supervisor", "error", err) // SIGCHLD tells, too
	}
}

// childEnvironment returns the environment of a supervisor. It feeds the watchdog of systemd if that is the keeper's.
func childEnvironment(env []string) []string {
	pid := strconv.Itoa(os.Getpid())
	watched := os.Getenv("WATCHDOG_PID")
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == keeperVariable || name == "WATCHDOG_PID" || name == "WATCHDOG_USEC" && watched != "" && watched != pid
	})
	return append(env, keeperVariable+"="+pid)
}

// reap takes note of the supervisor's end, if it has ended.
func (k *Keeper) reap() {
	exit, ended, err := k.supervisor.Wait()
	if err != nil {
		k.log.Error("supervisor not reaped", "error", err)
	}
	if !ended && err == nil {
		return
	}
	k.scope.Close()
	k.supervisor.Close()
	k.supervisor = nil
	k.receive() // what it has sent before
	k.takeBack()
	k.watchdog.rest()
	k.ended(exit)
}

// takeBack takes what the supervisor has not read out of the socket, for the next one.
func (k *Keeper) takeBack() {
	k.listening = false
	k.exits.told = 0
	var again []syscall.Signal
	for {
		m, ok, err := k.unread.Next()
		if err != nil || !ok {
			break
		}
		for _, line := range m.Lines {
			if key, value := cut(line); key == keySignal {
				again = append(again, syscall.Signal(number(value)))
			}
		}
	}
	k.signals = append(again, k.signals...)
}

// sweep reaps the children that have ended, and notes how. They are orphans of a supervisor, of its programs, or of anybody where the keeper
// is PID 1.
func (k *Keeper) sweep() {
	for {
		pid, ok, err := pidfd.Peek()
		if err != nil {
			k.log.Error("keeper can't look for ended processes", "error", err)
		}
		if err != nil || !ok {
			break
		}
		if k.supervisor != nil && pid == k.supervisor.Pid() {
			k.reap()
			continue
		}
		start := startOf(pid) // while it is a zombie
		exit, _, err := pidfd.ReapStranger(pid)
		if err != nil {
			k.log.Error("orphan not reaped", "error", err)
			break
		}
		k.exits.add(Exit{pid, start, waitStatus(exit)})
	}
	k.tell()
}

// startOf returns when a process was started, 0 if that can't be told.
func startOf(pid int) uint64 {
	p, err := pidfd.Open(pid)
	if err != nil {
		return 0
	}
	defer p.Close()
	id, _ := p.Identity()
	return id.Start
}

// forward tells the manager above what is for it.
func (k *Keeper) forward(lines []string) {
	if len(lines) > 0 {
		k.manager.Tell(strings.Join(lines, "\n"))
	}
}
