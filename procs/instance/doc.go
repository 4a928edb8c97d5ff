// Package instance is one instance of a program: what it runs, and what happens to that.
//
// An [Instance] consists of parts, each with what it owns:
//
//   - the machine decides: it has the state and the desired state, see [fsm.Machine];
//   - Membership says whether the configuration has the instance, and what takes its place;
//   - Node is its place in the dependency graph, from which it learns what blocks it;
//   - Output is the way of its output into the log, and the input of a logger;
//   - Schedule is the progress of the program's schedule;
//   - Quarantine prevents a start while leftover processes of a predecessor live;
//   - the exec checks have a process tree of their own, see [execprobe.Runner];
//   - the run lasts from the first pre_start hook to the end of the teardown.
//
// A run has the start of its main process, the main process, the hooks, the stop, the wait for
// readiness, the monitor, the notifications, the commands beside the main process and the teardown.
// Its scope owns their timers, watches and processes, so the end of a run ends them all.
//
// Parts that need little of the others are packages: [output.Output], [beside.Commands],
// [readiness.Wait], [health.Monitor], [launch.Search], [teardown.Teardown]. They see their run as
// an interface, which port implements.
//
// # From an event to its effects
//
// A part that learns of something steps the machine: a process has ended, a time-out is over, a
// check has failed. The machine returns a transition. [Instance.Apply] performs its effects in
// order, and then tells the [Owner], which records the transition and tells the other instances.
// No effect steps the machine. What an effect leads to comes later, from the loop, as a transition
// of its own. [Instance.Apply] is the only way from a part back to all others.
//
// # Layers
//
// The files are layers. Each uses those below it:
//
//	inspect                                     what the simulation sees
//	recovered  redefine  report                 all parts at once: recovery, reload, status
//	transition                                  effects of transitions
//	reason  blockers                            why the state is what it is
//	spawn                                       the start of a main process
//	notify  mainpid  forking                    which process is the main one, messages of it
//	monitor  readiness  commands  port          checks, and what runs beside the main process
//	teardown  exit  hooks  directories          ends of processes
//	stop  loggerinput
//	execchecks  problems
//	spawnspec  startrecord  attempt             what a start needs
//	output  schedule  quarantine  graph  sockets
//	mainprocess  run  instance  env             the types, with a pointer to each part
//	notifystate  exitstatus  loglimit
//
// Only the types at the bottom refer to what is above them: an instance and a run have their parts
// as fields, snapshot and restore them, and [Instance.Apply] performs effects.
//
// Everything happens on the loop, except where a comment says otherwise.
package instance
