package procs

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Records of instances and starts are encoded here, with the result of encoding/json. Each start
// writes several records, and encoding/json takes several times as long and as much memory. A test
// compares the two.

// An object is a JSON object under construction.
type object []byte

func (o object) key(name string) object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	return append(append(append(o, '"'), name...), `":`...)
}

func (o object) end() []byte { return append(o, '}') }

// text appends a string, even if it is empty.
func (o object) text(name, s string) object {
	o = o.key(name)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return append(o, mustMarshal(s)...)
		}
	}
	return append(append(append(o, '"'), s...), '"')
}

// number appends a number, even if it is 0.
func (o object) number(name string, n int64) object {
	return strconv.AppendInt(o.key(name), n, 10)
}

// flag appends a boolean, even if it is false.
func (o object) flag(name string, is bool) object { return strconv.AppendBool(o.key(name), is) }

// The methods below omit zero values.

func (o object) textIf(name, s string) object {
	if s == "" {
		return o
	}
	return o.text(name, s)
}

func (o object) numberIf(name string, n int64) object {
	if n == 0 {
		return o
	}
	return o.number(name, n)
}

func (o object) countIf(name string, n uint64) object {
	if n == 0 {
		return o
	}
	return strconv.AppendUint(o.key(name), n, 10)
}

func (o object) flagIf(name string, is bool) object {
	if !is {
		return o
	}
	return o.flag(name, is)
}

func (o object) timeIf(name string, at *time.Duration) object {
	if at == nil {
		return o
	}
	return o.number(name, int64(*at))
}

// otherIf appends a rare value by encoding/json, unless it is nil.
func otherIf[T any](o object, name string, v *T) object {
	if v == nil {
		return o
	}
	return append(o.key(name), mustMarshal(v)...)
}

// mustMarshal encodes a value that always has a JSON form: no map with odd keys, no channel, no
// cycle.
func mustMarshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("encode a record: " + err.Error())
	}
	return text
}

// AppendJSON implements [superd/procs/journal.Appender].
func (v *savedInstance) AppendJSON(b []byte) []byte {
	o := object(append(b, '{'))
	o = strconv.AppendUint(o.key("config"), v.Config, 10)
	o = otherIf(o, "table", v.Table)
	o = o.flagIf("removed", v.Removed)
	o = otherIf(o, "replacement_target", v.ReplacementTarget)
	o = o.text("state", v.State)
	o = o.flagIf("quarantined", v.Quarantined)
	o = v.Desired.appendTo(o.key("desired"))
	if v.DesiredBeforeShutdown != nil { // set during a shutdown
		o = v.DesiredBeforeShutdown.appendTo(o.key("desired_before_shutdown"))
	}
	o = o.flagIf("restart_pending", v.RestartPending)
	o = o.text("outcome", v.Outcome)
	o = v.FailureReason.appendIf(o, "failure_reason")
	o = o.flagIf("not_started", v.NotStarted).flagIf("resource_shortage", v.ResourceShortage).flagIf("failed", v.Failed)
	o = o.numberIf("restart_attempts", int64(v.RestartAttempts))
	if len(v.Failures) > 0 {
		o = otherIf(o, "failures", &v.Failures)
	}
	o = o.flagIf("start_limit_hit", v.StartLimitHit)
	o = o.numberIf("restarts", int64(v.Restarts))
	o = o.numberIf("delay", int64(v.Delay)).timeIf("due", v.Due)
	o = o.flagIf("run_pending", v.RunPending)
	o = otherIf(o, "schedule", v.Schedule)
	if !v.DueFor.IsZero() {
		o = otherIf(o, "due_for", &v.DueFor)
	}
	o = o.numberIf("skipped", int64(v.Skipped))
	o = v.StartReason.appendIf(o, "start_reason")
	o = v.ExitReason.appendIf(o, "exit_reason")
	o = v.StateReason.appendIf(o, "state_reason")
	o = o.number("since", int64(v.Since))
	o = o.countIf("last_completed_start", v.LastCompletedStart)
	if e := v.Exit; e != nil {
		o = append(o.key("exit"), '{')
		o = o.flagIf("known", e.Known).numberIf("code", int64(e.Code)).numberIf("signal", int64(e.Signal)).number("at", int64(e.At)).end()
	}
	o = o.flagIf("output", v.Output).textIf("fd_name", v.FDName)
	o = o.flagIf("stderr", v.Stderr).textIf("stderr_fd_name", v.StderrFDName)
	o = o.flagIf("input", v.Input).textIf("input_fd_name", v.InputFDName)
	o = otherIf(o, "dropped", v.Dropped)
	o = o.textIf("drain", v.Drain).textIf("tree", v.Tree).textIf("probes", v.Probes)
	if v.Run != nil {
		o = v.Run.appendTo(o.key("run"))
	}
	return o.end()
}

func (w savedTarget) appendTo(o object) object {
	return append(o, '{').flag("up", w.Up).textIf("by", w.By).textIf("for", w.For).end()
}

// appendIf appends the reason unless it is none.
func (r savedReason) appendIf(o object, name string) object {
	if r == (savedReason{}) {
		return o
	}
	return append(o.key(name), '{').text("kind", r.Kind).textIf("detail", r.Detail).end()
}

func (v *savedRun) appendTo(o object) object {
	o = append(o, '{').text("id", v.ID)
	o = otherIf(o, "table", v.Table)
	o = o.flagIf("outdated", v.Outdated).flagIf("touched", v.Touched)
	if v.Main != nil {
		o = v.Main.appendTo(o.key("main"))
	}
	o = o.numberIf("started_at", int64(v.StartedAt)).numberIf("ready_at", int64(v.ReadyAt))
	o = o.numberIf("start_deadline", int64(v.StartDeadline)).numberIf("stop_limit", int64(v.StopLimit))
	o = o.textIf("notify", v.Notify).textIf("ready", v.Ready).textIf("prints_from", v.PrintsFrom).textIf("stderr_from", v.StderrFrom).textIf("status_text", v.StatusText)
	o = o.numberIf("watchdog", int64(v.Watchdog)).timeIf("reloading", v.Reloading).timeIf("leaving", v.Leaving)
	o = otherIf(o, "health", v.Health)
	o = o.numberIf("group", int64(v.Group)).numberIf("oom_kills", int64(v.OOMKills)).countIf("env_sum", v.EnvSum)
	o = o.numberIf("stop_deadline", int64(v.StopDeadline)).numberIf("teardown_deadline", int64(v.TeardownDeadline))
	o = otherIf(o, "hook", v.Hook)
	return o.flagIf("pre_started", v.PreStarted).flagIf("post_stopped", v.PostStopped).end()
}

func (p *savedProcess) appendTo(o object) object {
	o = append(o, '{').number("pid", int64(p.Pid)).countIf("start", p.Start).countIf("inode", p.Inode)
	return o.textIf("fd_name", p.FDName).end()
}

// AppendJSON implements [superd/procs/journal.Appender].
func (v *savedStart) AppendJSON(b []byte) []byte {
	o := object(append(b, '{')).text("run", v.Run).countIf("config", v.Config)
	o = otherIf(o, "hook", v.Hook)
	o = o.flagIf("post_stop", v.PostStop).countIf("after", v.After)
	if v.Process != nil {
		o = v.Process.appendTo(o.key("process"))
	}
	o = o.textIf("notify", v.Notify).textIf("ready", v.Ready)
	if v.FDNames != [2]string{} {
		o = otherIf(o, "fd_names", &v.FDNames)
	}
	o = o.numberIf("at", int64(v.At))
	return otherIf(o, "schedule", v.Schedule).end()
}
