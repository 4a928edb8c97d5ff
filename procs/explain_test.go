package procs

import (
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/eventlog"
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
		name   string
		facts  Diagnosis
		events []eventlog.Event
		want   string
	}{
		{
			"in back-off",
			Diagnosis{State: Backoff, Since: ago(4 * time.Second), Reason: Reason{Detail: "exit status 3 after 12ms"}, WantedUp: true, WantedBy: actor(ActorConfiguration),
				NextStart: new(1600 * time.Millisecond), RestartAttempts: 5, Restarts: 4, Failures: 2, Limit: config.StartLimit{Failures: 5, Within: time.Minute, RetryAfter: 10 * time.Minute}},
			[]eventlog.Event{
				exit("a", 26*time.Hour, "killed by SIGKILL", 7325),
				{At: ago(6 * time.Second), Kind: eventlog.NoStart, Instance: "web", Run: "b", Reason: "open executable /mnt/web: no such file or directory"},
				exit("z", 5*time.Second, "exit status 1", 1),
				exit("c", 4*time.Second, "exit status 3", 0.0123),
				{At: ago(4 * time.Second), Kind: eventlog.Output, Instance: "web", Run: "c", Output: []string{"connect: refused", "giving up"}},
				{At: ago(time.Second), Kind: eventlog.Exit, Instance: "other", Run: "d", Reason: "exit status 0"},
			},
			`web is in back-off since 08:12:03 (4s): exit status 3 after 12ms.
It is wanted up by the configuration.
Next start in 1.6s, after 5 failures in a row; delays grow to at most 1m, to which jitter adds up to 7%.
Start limit: 2 of 5 failures within 1m.
It was started again by itself 4 times since the operator last started it, or since superd runs.
The last runs:
  2026-11-20 06:12:07  killed by SIGKILL after 2h2m
  08:12:01  not started: open executable /mnt/web: no such file or directory
  08:12:02  exit status 1 after 1s
  08:12:03  exit status 3 after 12.3ms
The last lines of the run that failed:
  | connect: refused
  | giving up
`,
		},
		{
			"running at once",
			Diagnosis{State: Running, Since: ago(50 * time.Hour), Reason: Reason{Detail: "started by the configuration"}, Pid: 7, WantedUp: true, WantedBy: actor(ActorConfiguration),
				Dropped: [2]int64{48211, 903}, Says: "3 clients", Checked: "tcp 127.0.0.1:80",
				Outage: &logs.Outage{Since: ago(3 * time.Second), Reason: "write /l: no space left on device", Drops: true},
				Check:  &Check{At: ago(time.Second), Took: 2 * time.Millisecond, Outcome: probe.Failed, Reason: "connection refused", Failures: 2}}, nil,
			`web is running with pid 7 since 2026-11-19 06:12:07 (2d2h): started by the configuration.
It is wanted up by the configuration.
It says of itself: 3 clients.
Its health was last checked at 08:12:06, tcp 127.0.0.1:80, in 2ms: it failed: connection refused (2 failures in a row).
Its output does not get into its log since 08:12:04 (3s): write /l: no space left on device. What it prints is dropped; superd tries again and again.
Of its output, 48211 bytes in 903 lines were dropped since superd started, rather than have it wait: its log or the events say why.
`,
		},
		{
			"given up",
			Diagnosis{State: Failed, Since: ago(time.Minute), Reason: Reason{Detail: "exit status 1 after 1ms; gave up after 1 failures within 1m0s"}, WantedUp: true, WantedBy: actor(ActorOperator),
				NextStart: new(9 * time.Minute), StartLimitHit: true, Limit: config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: 10 * time.Minute}}, nil,
			`web failed at 08:11:07 (1m): exit status 1 after 1ms; gave up after 1 failures within 1m0s.
It is wanted up by the operator.
Next start in 9m: it has given up, and is tried again every 10m.
Its start limit was reached: 1 failure within 1m. A run of 10s or a start by the operator clears that.
`,
		},
		{
			"failed for good",
			Diagnosis{State: Failed, Since: now, Reason: Reason{Detail: "superd.toml:3:1: program.web.user: unknown"}, WantedUp: true, WantedBy: actor(ActorConfiguration)}, nil,
			"web failed at 08:12:07 (0s): superd.toml:3:1: program.web.user: unknown.\nIt is wanted up by the configuration.\nNo further start is due: `superd ctl start web` starts it.\n",
		},
		{
			"stopped by the operator",
			Diagnosis{State: Stopped, Since: now, Reason: Reason{Detail: "stopped by the operator"}, WantedBy: actor(ActorOperator)}, nil,
			"web is stopped since 08:12:07 (0s): stopped by the operator.\nIt is wanted down by the operator and stays so until `superd ctl start web`.\n",
		},
		{
			"waiting for its schedule",
			Diagnosis{State: Waiting, Since: ago(time.Minute), Reason: Reason{Detail: "exit status 3 after 12ms"}, WantedUp: true, WantedBy: actor(ActorConfiguration), Schedule: "30 9 * * *",
				NextRun: now.Add(time.Hour + time.Millisecond), NextStart: new(time.Hour)},
			[]eventlog.Event{{Kind: eventlog.Skip, Instance: "web", At: ago(time.Minute), Reason: "due at 2026-11-20 08:11:07: the run before is not over"}},
			`web is waiting since 08:11:07 (1m): exit status 3 after 12ms.
It is wanted up by the configuration.
Its schedule is "30 9 * * *": next run at 09:12:07, in 1h.
The last runs:
  08:11:07  skipped: due at 2026-11-20 08:11:07: the run before is not over
`,
		},
		{
			"a run that lasts",
			Diagnosis{State: Running, Since: now, Reason: Reason{Detail: "started by its schedule"}, Pid: 7, WantedUp: true, WantedBy: actor(ActorConfiguration), Schedule: "@every 1s", Skipped: 2}, nil,
			"web is running with pid 7 since 08:12:07 (0s): started by its schedule.\nIt is wanted up by the configuration.\n" +
				"Its schedule \"@every 1s\" was due 2 times since this run began: nothing was run for that.\n",
		},
		{
			"never started",
			Diagnosis{State: Stopped, Since: now, Reason: Reason{Detail: "not started yet"}}, nil,
			"web is stopped since 08:12:07 (0s): not started yet.\nNobody has asked for it to be up: `superd ctl start web` starts it.\n",
		},
		{
			"waiting for others",
			Diagnosis{State: Waiting, Since: ago(2 * time.Second), Reason: Reason{Detail: "waits for db, which is starting; and for 1 more"}, WantedUp: true, WantedBy: Actor{ActorOperator, "front"},
				WaitsFor: []string{"db, which is starting", "api, which waits for net, which the operator has stopped"}}, nil,
			`web is waiting since 08:12:05 (2s): waits for db, which is starting; and for 1 more.
It is wanted up by the operator, for front.
It waits for db, which is starting.
It waits for api, which waits for net, which the operator has stopped.
`,
		},
		{
			"stopping for a restart",
			Diagnosis{State: Stopping, Since: ago(2 * time.Second), Reason: Reason{Detail: "stopping, to be restarted by the operator"}, Pid: 7, WantedUp: true, WantedBy: actor(ActorOperator), RestartPending: true, KillIn: new(8 * time.Second)}, nil,
			`web is stopping since 08:12:05 (2s): stopping, to be restarted by the operator.
It is wanted up by the operator, in a new run: it starts again as soon as it is down.
If it has not ended in 8s, it gets SIGKILL.
`,
		},
		{
			"leftovers",
			Diagnosis{State: TearingDown, Since: now, Reason: Reason{Detail: "exit status 0 after 1s"}, WantedBy: actor(ActorShutdown), Stage: "ending what is left of it: sleep (12), sh (13)"}, nil,
			`web is stopping since 08:12:07 (0s): exit status 0 after 1s.
It is wanted down by the shutdown.
At the moment: ending what is left of it: sleep (12), sh (13).
`,
		},
		{
			"stuck, removed and replaced",
			Diagnosis{State: Killing, Since: now, Reason: Reason{Detail: "stopping by the configuration: removed"}, WantedBy: actor(ActorRemoval), Removed: true, Replaced: true,
				Unkillable: "process 7 does not die: it waits in D (disk sleep) in nfs_wait"}, nil,
			`web is stopping since 08:12:07 (0s): stopping by the configuration: removed.
It is not in the configuration any more in this form; the new one of this name takes its place when it is down.
superd can do no more about it: process 7 does not die: it waits in D (disk sleep) in nfs_wait.
`,
		},
		{
			"a start that hangs after one that hangs",
			Diagnosis{State: Spawning, Since: now, Reason: Reason{Detail: "started again"}, WantedUp: true, WantedBy: actor(ActorConfiguration), Stage: "waits", HangsIn: "open executable /mnt/web"}, nil,
			`web is starting since 08:12:07 (0s): started again.
It is wanted up by the configuration.
At the moment: waits.
An earlier start of it still hangs: open executable /mnt/web. No further one is sent there until it comes back.
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.Name, tt.facts.Now, tt.facts.Backoff = "web", now, backoff
			if got := tt.facts.Explain(tt.events); got != tt.want {
				t.Errorf("Explain() =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"}, {12345 * time.Nanosecond, "12µs"}, {12345 * time.Microsecond, "12ms"}, {1655 * time.Millisecond, "1.6s"},
		{62*time.Second + 900*time.Millisecond, "1m2s"}, {time.Hour, "1h"}, {47*time.Hour + 59*time.Minute, "47h59m"}, {75 * time.Hour, "3d3h"},
	}
	for _, tt := range tests {
		if got := span(tt.d); got != tt.want {
			t.Errorf("span(%d) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestLastLines(t *testing.T) {
	tests := []struct {
		name, text string
		cut        bool
		want       []string
	}{
		{"nothing", "", false, nil},
		{"only line ends", "\n\r\n", false, nil},
		{"a partial last line counts", "a\nb", false, []string{"a", "b"}},
		{"line ends go", "a\r\n\nb\r\n\n", false, []string{"a", "", "b"}},
		{"the last ones", "1\n2\n3\n4\n", false, []string{"2", "3", "4"}},
		{"a beginning within a line goes", "lf\nb\n", true, []string{"b"}},
		{"unless it is all there is", "lf\n", true, []string{"…lf"}},
		{"what is not UTF-8 is replaced", "a\xffb\n", false, []string{"a\ufffdb"}},
	}
	for _, tt := range tests {
		if got := lastLines(tt.text, tt.cut, 3); !slices.Equal(got, tt.want) {
			t.Errorf("%s: lastLines(%q, %v, 3) = %q, want %q", tt.name, tt.text, tt.cut, got, tt.want)
		}
	}
}
