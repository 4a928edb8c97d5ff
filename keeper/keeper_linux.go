package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/keeper/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// Names of the keeper's own descriptors, beside those that the supervisor has stored.
const (
	linkFile     = "keeper"
	watchdogFile = "watchdog"
)

// keeperVariable is the environment variable with the keeper's pid, for the supervisor.
const keeperVariable = "SUPERD_KEEPER"

// Run runs the keeper. It returns the exit status that the supervisor has announced.
func Run(o Options) (status int, err error) {
	k := &Keeper{options: o, log: o.Log, manager: o.Manager}
	for _, name := range fdstore.SortedNames(o.Files) {
		k.store.Put(name, o.Files[name])
	}
	k.front = k.store.Take(frontFile)
	k.initial = countOwn(k.store.Files()) == 0
	k.showRuntimeDir()
	if k.loop, err = loop.New(); err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	resumed, err := k.open()
	if err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	k.reapOrphans() // children that ended before this process became the keeper
	// Otherwise a supervisor runs, or reapOrphans has handled its end.
	if !resumed {
		k.start()
	}
	if o.Begun != nil {
		o.Begun()
	}
	if err := k.loop.Run(); err != nil {
		return 0, err
	}
	k.sendFront(keyExit, strconv.Itoa(k.status))
	return k.status, nil
}

// open opens what lasts as long as the keeper. It reports whether the keeper has executed another
// binary and continues with its running supervisor.
func (k *Keeper) open() (resumed bool, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, fmt.Errorf("become child subreaper: %w", err)
	}
	if resumed, err = k.restore(); err != nil {
		return false, err
	}
	if !resumed {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return false, fmt.Errorf("make socketpair: %w", err)
		}
		k.channel, k.supervisorEnd = pair[0], pair[1]
	}
	k.receiver, k.unread = fdstore.NewReceiver(k.channel), fdstore.NewReceiver(k.supervisorEnd)
	root := k.loop.Root()
	// This watch is never called; it keeps channel registered in epoll, so that stopping and
	// restarting the other watch can't fail.
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
	if err := k.options.Terminal.Watch(root); err != nil {
		return false, err
	}
	if err := k.openFront(); err != nil {
		return false, err
	}
	if resumed {
		k.watchSupervisor()
		k.log.Info("the keeper runs the new binary, too")
		k.reduceMemorySoon()
	}
	return resumed, nil
}

// showRuntimeDir puts the runtime directory into the titles of this process and of the front
// process.
func (k *Keeper) showRuntimeDir() {
	dir := k.runtimeDir()
	SetTitle(keeperTitle, dir)
	if dir != "" {
		k.sendFront(keyRuntimeDir, dir)
	}
}

// start starts a supervisor.
func (k *Keeper) start() {
	k.restart = nil
	k.report = report{}
	k.listening = true
	if !k.first() {
		k.send(keyResume + "=1")
	}
	k.stop.unsent = k.stop.signal != 0
	k.sendPending() // before it runs, so that it finds all of it when it first reads
	files := k.store.Files()
	files[linkFile] = k.supervisorEnd
	if k.front >= 0 {
		files[frontFile] = k.front
	}
	if k.watchdog.fd >= 0 {
		files[watchdogFile] = k.watchdog.fd
	}
	fds, env := fdstore.Handover(files, childEnvironment(k.options.Env))
	path, err := signals.Executable()
	if err == nil {
		k.supervisor, err = pidfd.Spawn(&pidfd.Attr{Path: path, Args: k.options.Args, Env: env, Files: append([]int{0, 1, 2}, fds...), CgroupFD: -1, Room: k.options.Room, OpenFiles: k.options.OpenFiles})
	}
	if err != nil {
		k.discardUnread()
		k.crashes++
		pause := k.pause()
		k.log.Error("superd not started", "error", err, "again_in", pause)
		k.startAfter(pause)
		return
	}
	k.log.Debug("keeper started a supervisor", "pid", k.supervisor.Pid(), "crashes", k.crashes)
	k.watchSupervisor()
}

// watchSupervisor watches the supervisor, which was just started or restored.
func (k *Keeper) watchSupervisor() {
	k.listening = true
	k.started = k.loop.Now()
	k.scope = k.loop.Root().Child()
	// As without pidfd_open.
	if _, err := k.scope.OnReadable(k.supervisor.FD(), k.reap); err != nil && !errors.Is(err, unix.EPERM) {
		// SIGCHLD reports the end, too
		k.log.Error("keeper can't watch the supervisor", "error", err)
	}
}

// childEnvironment returns the environment of a supervisor. It keeps the variables of systemd's
// watchdog if that watches the keeper.
func childEnvironment(env []string) []string {
	pid := strconv.Itoa(os.Getpid())
	watched := os.Getenv("WATCHDOG_PID")
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == keeperVariable || name == "WATCHDOG_PID" || name == "WATCHDOG_USEC" && watched != "" && watched != pid
	})
	return append(env, keeperVariable+"="+pid)
}

// reap handles the end of the supervisor, if it has ended.
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
	k.receive() // messages sent before its end
	k.discardUnread()
	k.watchdog.reset()
	k.ended(exit)
}

// discardUnread removes from the socket what the supervisor has not read, and queues the signals
// that it has not acknowledged for the next one.
func (k *Keeper) discardUnread() {
	k.listening = false
	k.exits.sent = 0
	for {
		if _, ok, err := k.unread.Next(); err != nil || !ok {
			break
		}
	}
	// A stop request is sent to the next supervisor in any case.
	k.signals = slices.DeleteFunc(append(k.unacknowledged, k.signals...), isStop)
	k.unacknowledged = nil
}

// reapOrphans reaps the children that have ended and records their exits. They are orphans of a
// supervisor, of its programs, or of any process if the keeper is PID 1.
func (k *Keeper) reapOrphans() {
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
		start := startOf(pid) // only while it is a zombie
		exit, _, err := pidfd.ReapUnknown(pid)
		if err != nil {
			k.log.Error("orphan not reaped", "error", err)
			break
		}
		k.exits.add(Exit{pid, start, waitStatus(exit)})
	}
	k.sendPending()
}

// startOf returns the start time of a process, 0 if unknown.
func startOf(pid int) uint64 {
	p, err := pidfd.Open(pid)
	if err != nil {
		return 0
	}
	defer p.Close()
	id, _ := p.Identity()
	return id.Start
}

// forward sends to the manager above the lines that are for it.
func (k *Keeper) forward(lines []string) {
	if len(lines) > 0 {
		k.manager.Send(strings.Join(lines, "\n"))
	}
}
