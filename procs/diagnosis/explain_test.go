package diagnosis

import (
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/probe"
)

func TestExplain(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 12, 7, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	exit := func(run string, before time.Duration, reason string, ran float64) eventlog.Event {
		return eventlog.Event{At: ago(before), Kind: eventlog.Exit, Instance: "web", Run: run, Reason: reason, Duration: &ran}
	}
	backoff := config.Backoff{Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.07, ResetAfter: 10 * time.Second}
	tests := []struct {
		name      string
		diagnosis Diagnosis
		events    []eventlog.Event
		want      string
	}{
		{
			"in backoff",
			Diagnosis{State: fsm.Backoff, Since: ago(4 * time.Second), Reason: fsm.Reason{Detail: "exit status 3 after 12ms"}, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)},
				NextStart: new(1600 * time.Millisecond),
				Restarts:  Restarts{Attempts: 5, Count: 4, Failures: 2, Limit: config.StartLimit{Failures: 5, Within: time.Minute, RetryAfter: 10 * time.Minute}}},
			[]eventlog.Event{
				exit("a", 26*time.Hour, "killed by SIGKILL", 7325),
				{At: ago(6 * time.Second), Kind: eventlog.NoStart, Instance: "web", Run: "b", Reason: "open executable /mnt/web: no such file or directory"},
				exit("x", 6*time.Second, "exit status 1", 0.5),
				exit("y", 6*time.Second, "exit status 1", 0.25),
				exit("z", 5*time.Second, "exit status 1", 1),
				exit("c", 4*time.Second, "exit status 3", 0.0123),
				{At: ago(4 * time.Second), Kind: eventlog.Output, Instance: "web", Run: "c", Output: []string{"connect: refused", "giving up"}},
				{At: ago(time.Second), Kind: eventlog.Exit, Instance: "other", Run: "d", Reason: "exit status 0"},
			},
			`web is in backoff since 08:12:03 (4s): exit status 3 after 12ms.
It is wanted up by the configuration.
Next start in 1.6s, after 5 failures in a row; delays grow to at most 1m, plus a jitter of up to 7%.
Start limit: 2 of 5 failures within 1m.
It was restarted automatically 4 times since the operator last started it, or since superd started.
The last runs:
  2026-11-20 06:12:07  killed by SIGKILL after 2h2m
  08:12:01  not started: open executable /mnt/web: no such file or directory
  08:12:01 to 08:12:02  3 times: exit status 1 after 250ms to 1s
  08:12:03  exit status 3 after 12.3ms
The last lines of the run that failed:
  | connect: refused
  | giving up
`,
		},
		{
			"running at once",
			Diagnosis{State: fsm.Running, Since: ago(50 * time.Hour), Reason: fsm.Reason{Detail: "started by the configuration"}, Pid: 7, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)},
				StatusText: "3 clients",
				Output: Output{
					DroppedBytes: 48211, DroppedLines: 903,
					Outage: &logs.Outage{Since: ago(3 * time.Second), Reason: "write /l: no space left on device", Dropping: true},
				},
				Health: Health{
					Probes: "tcp 127.0.0.1:80",
					Last:   &Check{At: ago(time.Second), Took: 2 * time.Millisecond, Outcome: probe.Failed, Reason: "connection refused", Failures: 2},
				}}, nil,
			`web is running with pid 7 since 2026-11-19 06:12:07 (2d2h): started by the configuration.
It is wanted up by the configuration.
It reports: 3 clients.
Its health was last checked at 08:12:06, tcp 127.0.0.1:80, in 2ms: failed: connection refused (2 failures in a row).
Its output has not got into its log since 08:12:04 (3s): write /l: no space left on device. New output is dropped; superd keeps retrying.
48211 bytes of its output in 903 lines were dropped since superd started: its log or the events say why.
`,
		},
		{
			"waits for one",
			Diagnosis{State: fsm.Waiting, Since: ago(time.Second), Reason: fsm.ReasonWaitsForDependency.With("db, which is itself waiting"),
				Desired: Desired{Up: true, By: fsm.By(fsm.ActorOperator)}, WaitsFor: []string{"db, which waits for disk, which is starting"}}, nil,
			"web is waiting since 08:12:06 (1s): waits for db, which waits for disk, which is starting.\nIt is wanted up by the operator.\n",
		},
		{
			"waits for several",
			Diagnosis{State: fsm.Waiting, Since: ago(time.Second), Reason: fsm.ReasonWaitsForDependency.With("db, which is starting; and for 1 more"),
				Desired: Desired{Up: true, By: fsm.By(fsm.ActorOperator)}, WaitsFor: []string{"db, which is starting", "disk, which failed"}}, nil,
			"web is waiting since 08:12:06 (1s): waits for db, which is starting; and for 1 more.\nIt is wanted up by the operator.\n" +
				"It waits for db, which is starting.\nIt waits for disk, which failed.\n",
		},
		{
			"at the start limit",
			Diagnosis{State: fsm.Failed, Since: ago(time.Minute), Reason: fsm.Reason{Detail: "exit status 1 after 1ms; start limit hit: 1 failure within 1m"}, Desired: Desired{Up: true, By: fsm.By(fsm.ActorOperator)},
				NextStart: new(9 * time.Minute),
				Restarts:  Restarts{LimitHit: true, Limit: config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: 10 * time.Minute}}}, nil,
			`web failed at 08:11:07 (1m): exit status 1 after 1ms; start limit hit: 1 failure within 1m.
It is wanted up by the operator.
Next start in 9m, then every 10m.
It hit its start limit: 1 failure within 1m. A run of 10s or a start by the operator resets it.
`,
		},
		{
			"failed for good",
			Diagnosis{State: fsm.Failed, Since: now, Reason: fsm.Reason{Detail: "superd.toml:3:1: program.web.user: unknown"}, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)}}, nil,
			"web failed at 08:12:07 (0s): superd.toml:3:1: program.web.user: unknown.\nIt is wanted up by the configuration.\nNo further start is due: `superd ctl start web` starts it.\n",
		},
		{
			"stopped by the operator",
			Diagnosis{State: fsm.Stopped, Since: now, Reason: fsm.Reason{Detail: "stopped by the operator"}, Desired: Desired{By: fsm.By(fsm.ActorOperator)}}, nil,
			"web is stopped since 08:12:07 (0s): stopped by the operator.\nIt is wanted down by the operator and stays so until `superd ctl start web`.\n",
		},
		{
			"waiting for its schedule",
			Diagnosis{State: fsm.Waiting, Since: ago(time.Minute), Reason: fsm.Reason{Detail: "exit status 3 after 12ms"}, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)},
				Schedule: Schedule{Spec: "30 9 * * *", NextRun: now.Add(time.Hour + time.Millisecond)}, NextStart: new(time.Hour)},
			[]eventlog.Event{{Kind: eventlog.Skip, Instance: "web", At: ago(time.Minute), Reason: "due at 2026-11-20 08:11:07: the previous run is not over"}},
			`web is waiting since 08:11:07 (1m): exit status 3 after 12ms.
It is wanted up by the configuration.
Its schedule is "30 9 * * *": next run at 09:12:07, in 1h.
The last runs:
  08:11:07  skipped: due at 2026-11-20 08:11:07: the previous run is not over
`,
		},
		{
			"a run that lasts",
			Diagnosis{State: fsm.Running, Since: now, Reason: fsm.Reason{Detail: "started by its schedule"}, Pid: 7, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)}, Schedule: Schedule{Spec: "@every 1s", Skipped: 2}}, nil,
			"web is running with pid 7 since 08:12:07 (0s): started by its schedule.\nIt is wanted up by the configuration.\n" +
				"Its schedule \"@every 1s\" was due 2 times during this run: skipped.\n",
		},
		{
			"never started",
			Diagnosis{State: fsm.Stopped, Since: now, Reason: fsm.Reason{Detail: "not started yet"}}, nil,
			"web is stopped since 08:12:07 (0s): not started yet.\nIt is not wanted up: `superd ctl start web` starts it.\n",
		},
		{
			"waiting for a connection",
			Diagnosis{State: fsm.Exited, Since: now, Reason: fsm.Reason{Detail: "waits for a connection to http"}, Kind: fsm.ReasonWaitsForConnection, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConnection), OnConnect: true}}, nil,
			"web exited at 08:12:07 (0s): waits for a connection to http.\nThe next connection starts it.\n",
		},
		{
			"waiting for others",
			Diagnosis{State: fsm.Waiting, Since: ago(2 * time.Second), Reason: fsm.Reason{Detail: "waits for db, which is starting; and for 1 more"}, Desired: Desired{Up: true, By: fsm.Actor{Kind: fsm.ActorOperator, For: "front"}},
				WaitsFor: []string{"db, which is starting", "api, which waits for net, which the operator has stopped"}}, nil,
			`web is waiting since 08:12:05 (2s): waits for db, which is starting; and for 1 more.
It is wanted up by the operator, for front.
It waits for db, which is starting.
It waits for api, which waits for net, which the operator has stopped.
`,
		},
		{
			"stopping for a restart",
			Diagnosis{State: fsm.Stopping, Since: ago(2 * time.Second), Reason: fsm.Reason{Detail: "restart requested by the operator"}, Pid: 7, Desired: Desired{Up: true, By: fsm.By(fsm.ActorOperator), RestartPending: true}, KillIn: new(8 * time.Second)}, nil,
			`web is stopping since 08:12:05 (2s): restart requested by the operator.
It is wanted up by the operator and restarts as soon as it is down.
It gets SIGKILL in 8s unless it ends before.
`,
		},
		{
			"leftovers",
			Diagnosis{State: fsm.TearingDown, Since: now, Reason: fsm.Reason{Detail: "exit status 0 after 1s"}, Desired: Desired{By: fsm.By(fsm.ActorShutdown)}, Stage: "ending leftover processes: sleep (12), sh (13)"}, nil,
			`web is stopping since 08:12:07 (0s): exit status 0 after 1s.
It is wanted down by the shutdown.
Now: ending leftover processes: sleep (12), sh (13).
`,
		},
		{
			"unkillable, removed and replaced",
			Diagnosis{State: fsm.Killing, Since: now, Reason: fsm.Reason{Detail: "stop requested by the configuration (removed)"}, Desired: Desired{By: fsm.By(fsm.ActorRemoval), Removed: true, Replaced: true},
				Processes: Processes{Unkillable: "process 7 survives SIGKILL: state D (disk sleep) in nfs_wait"}}, nil,
			`web is stopping since 08:12:07 (0s): stop requested by the configuration (removed).
The configuration has a new definition of this name, which replaces it when it is down.
superd cannot end it: process 7 survives SIGKILL: state D (disk sleep) in nfs_wait.
`,
		},
		{
			"a start that hangs after one that hangs",
			Diagnosis{State: fsm.Spawning, Since: now, Reason: fsm.Reason{Detail: "started again"}, Desired: Desired{Up: true, By: fsm.By(fsm.ActorConfiguration)}, Stage: "waits", HangsIn: "open executable /mnt/web"}, nil,
			`web is starting since 08:12:07 (0s): started again.
It is wanted up by the configuration.
Now: waits.
An earlier start still hangs: open executable /mnt/web. The next one waits for it.
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.diagnosis.Name, tt.diagnosis.Now, tt.diagnosis.Restarts.Backoff = "web", now, backoff
			if got := tt.diagnosis.Explain(tt.events); got != tt.want {
				t.Errorf("Explain() =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
