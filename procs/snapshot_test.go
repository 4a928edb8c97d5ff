package procs

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
)

// restoredElsewhere has the fields of records that need what only a whole recovery has: processes,
// descriptors and timers. The simulation covers them.
var restoredElsewhere = []string{
	"Instance.Quarantined", "Instance.Due", "Instance.Tree", "Instance.Probes",
	"Instance.Output", "Instance.FDName", "Instance.Stderr", "Instance.StderrFDName",
	"Instance.Input", "Instance.InputFDName",
	"Run.Main", "Run.OOMKills", "Run.StartDeadline", "Hook.Process",
	"Superd.Ended", // only the last record has it
}

// TestRestoreIsInverseOfSnapshot: each part snapshots what it was restored from, in each field of
// the records, also in those added later.
func TestRestoreIsInverseOfSnapshot(t *testing.T) {
	for _, ready := range []bool{false, true} {
		h := newHistory(1, defect{}, false)
		h.kernel.Mix = hosttest.FaultMix{}
		web := programNamed("web", nil)
		o := h.options()
		o.Predecessor.Resumed, o.Config = true, &config.Config{Programs: []*config.Program{web}}
		h.sup = New(o)

		var self snapshot.Superd
		fillRecord(reflect.ValueOf(&self).Elem(), new(int64(time.Hour)))
		self.Shutdown.Why = fsm.ReasonShutdownRequested.With("SIGTERM").Snapshot()
		h.sup.self.restore(&snapshot.Snapshot{Superd: self})
		compareFields(t, self, *h.sup.self.snapshot())

		v := filledInstance(web)
		if v.Config = self.Config; ready {
			v.Run.PrintsFrom, v.Run.StderrFrom = "", "" // needed only until it is ready
		} else {
			v.Run.ReadyAt = 0
		}
		compareFields(t, *v, *inspect(h.sup).restoreCopy(v, web))
	}
}

// filledInstance returns a record of a removed instance of web with a value in each field.
func filledInstance(web *config.Program) *snapshot.Instance {
	v := &snapshot.Instance{}
	fillRecord(reflect.ValueOf(v).Elem(), new(int64(time.Hour)))
	v.Definition, v.Run.Definition, v.Run.Hook.At = web, programNamed("web", nil), 1
	v.State, v.Outcome = fsm.Running.Name(), fsm.RunEndedRetry.OutcomeName()
	target := fsm.Target{Up: true, By: fsm.Actor{Kind: fsm.ActorOperator, For: "db"}}.Snapshot()
	v.Desired, v.DesiredBeforeShutdown, v.ReplacementTarget = target, &target, &target
	why := fsm.ReasonUnhealthy.With("unhealthy").Snapshot()
	v.FailureReason, v.StartReason, v.ExitReason, v.StateReason = why, why, why, why
	return v
}

// fillRecord sets each field of a record, and what it points to, to another value. It leaves
// definitions alone.
func fillRecord(v reflect.Value, next *int64) {
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint(*next % 1000))
	case reflect.Int:
		v.SetInt(*next % 1000)
	case reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillRecord(v.Index(0), next)
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*config.Program]() {
			v.Set(reflect.New(v.Type().Elem()))
			fillRecord(v.Elem(), next)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(*next, 0)
			return
		}
		for i := range v.NumField() {
			fillRecord(v.Field(i), next)
		}
	default:
		panic("no values for " + v.Type().String())
	}
}

// compareFields compares the fields of two records, and of the records in them, apart from those
// that are restored elsewhere.
func compareFields(t *testing.T, want, got any) {
	t.Helper()
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for i := range w.NumField() {
		name := w.Type().Name() + "." + w.Type().Field(i).Name
		a, b := w.Field(i), g.Field(i)
		switch {
		case slices.Contains(restoredElsewhere, name):
		case (name == "Instance.Run" || name == "Run.Hook") && !b.IsNil():
			compareFields(t, a.Elem().Interface(), b.Elem().Interface())
		case !reflect.DeepEqual(a.Interface(), b.Interface()):
			t.Errorf("%s: restored %+v, snapshot %+v", name, a, b)
		}
	}
}
