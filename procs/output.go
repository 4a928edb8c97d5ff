package procs

import (
	"superd/logs"
	"superd/procs/snapshot"
)

// snapshotOutput sets in the instance's record which FIFOs exist, their names in the descriptor
// store, how much output was dropped, and whether output is still in the pipe.
func (in *instance) snapshotOutput(v *snapshot.Instance) {
	v.Output, v.FDName = in.collector.FD(logs.Stdout) >= 0, in.fifoNames[logs.Stdout].String()
	v.Stderr, v.StderrFDName = in.collector.FD(logs.Stderr) >= 0, in.fifoNames[logs.Stderr].String()
	if in.inputFIFO != nil {
		v.Input, v.InputFDName = true, in.inputFIFO.fdName
	}
	if d := in.collector.Drops(); d != (logs.Drops{}) {
		v.Dropped = new(snapshot.Drops(d))
	}
	v.Drain = in.drainingRun
}

// restoreOutput restores the counters of dropped output, and attaches the read ends of the FIFOs,
// which are reopened, to the collector.
func (a *recoveredInstance) restoreOutput() {
	in, recovered, log := a.in, a.recovered, a.in.sup.log
	_, fdNames := a.saved.FIFOs()
	if a.saved.Run != nil {
		program := a.saved.RunDefinition(in.program)
		var unknownStart []logs.Stream
		if r := a.saved.Run; r.ReadyAt == 0 && awaitsLine(program) {
			for which, from := range [...]string{logs.Stdout: r.PrintsFrom, logs.Stderr: r.StderrFrom} {
				if from == "" {
					unknownStart = append(unknownStart, logs.Stream(which))
				}
			}
		}
		in.collector.ResumeRun(a.saved.Run.ID, unknownStart...)
	}
	if d := a.saved.Dropped; d != nil {
		in.collector.RestoreDrops(logs.Drops(*d))
	}
	for _, o := range recovered.Outputs {
		if o.Err != nil {
			in.ownProblems().noOutput = o.Err.Error()
			if recovered.Found != nil {
				log.Error("output not captured", "instance", in.name, "error", o.Err)
			}
		}
		if o.ReadFD < 0 {
			continue
		}
		name := fdNames[o.Stream]
		if o.Gap {
			name, a.fdRenamed = in.sup.fds.storeFD(o.ReadFD, true), true
		}
		if o.Stream == input {
			in.setInput(o.ReadFD, name)
			continue
		}
		in.fifoNames[o.Stream] = fdNameOf(name)
		if err := in.collector.Attach(o.Stream, o.ReadFD); err != nil {
			log.Error("output not captured", "instance", in.name, "error", err)
		}
	}
	if !a.outputGap && a.saved.Drain != "" {
		in.drain(a.saved.Drain)
	}
}

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (s *Supervisor) saveDrops(c *logs.Collector) {
	in := s.registry.byName[c.Name()]
	if in == nil || &in.collector != c {
		return
	}
	was := c.Drops()
	in.save()
	s.recorder.afterSaving(func(unrecorded error) {
		switch {
		case unrecorded != nil: // one retry serves all drops
			s.scope.After(recordPause, func() { s.saveDrops(c) })
		case c.DropsSaved(was):
			s.saveDrops(c)
		}
	})
}
