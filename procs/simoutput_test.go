package procs

import (
	"reflect"
	"slices"

	"superd/config"
	"superd/logs/sink"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/snapshot"
)

// drawOutput draws where the output of a program goes and how it is written, and its limits.
func (h *history) drawOutput(p *config.Program) {
	log := &p.Log
	log.Stderr = []config.Stderr{config.StderrMerge, config.StderrSeparate}[h.rng.IntN(2)]
	log.Format = []config.LogFormat{
		config.LogRaw, config.LogText, config.LogJSON, config.LogDirect,
	}[h.rng.IntN(4)]
	if log.Format == config.LogText && h.chance(0.5) {
		log.Stderr = config.StderrLabel
	}
	log.Overflow = []config.Overflow{config.OverflowBlock, config.OverflowDrop}[h.rng.IntN(2)]
	log.Sink = config.SinkFile
	if log.Format != config.LogDirect {
		log.Sink = []config.Sink{config.SinkFile, config.SinkStdout, config.SinkSyslog}[h.rng.IntN(3)]
	}
	if *simLogFiles || h.defect.logFiles {
		log.File = []string{"", "a.log", "b.log"}[h.rng.IntN(3)]
	}
	log.MaxSize, log.Keep = int64(h.pick(0, 1000, 1e6)), h.rng.IntN(3)
	log.MaxTotal = int64(h.pick(0, 1e6))
	p.Limits = config.Limits{}
	if h.chance(0.5) {
		p.Limits.Memory = new(int64(h.pick(1e6, 1e9)))
	}
	if h.chance(0.5) {
		p.Limits.Tasks = new(int64(h.pick(10, 1000)))
	}
	if h.chance(0.5) {
		p.Limits.CPU = new(h.pick(0.5, 2))
	}
}

// separateLogFiles takes the log file from each program that must not have it: one with other than
// one instance, or that shares it. Those in keep come first.
func separateLogFiles(c *config.Config, keep map[*config.Program]bool) {
	owned := map[string]bool{}
	for _, kept := range []bool{true, false} {
		for i, p := range c.Programs {
			switch {
			case keep[p] != kept || p.Log.File == "":
			case owned[p.Log.File] || p.Replicas != 1:
				c.Programs[i] = p.Clone()
				c.Programs[i].Log.File = ""
			default:
				owned[p.Log.File] = true
			}
		}
	}
}

// sharesLogFile reports whether two instances have a log file in common.
func sharesLogFile(a, b instanceView) bool {
	files := b.logFiles()
	return slices.ContainsFunc(a.logFiles(), func(f string) bool { return slices.Contains(files, f) })
}

// checkSpawn checks that a main process gets the outputs and the limits of its definition, and that
// no other instance writes to its FIFOs.
func (h *history) checkSpawn(spec *host.SpawnSpec) {
	role := hosttest.RoleOf(spec.Program)
	if role.OwnTree() {
		return
	}
	for _, o := range spec.Outputs {
		if owner := h.fifos[o.FIFO]; owner != "" && owner != spec.Name {
			h.fail("%s writes to the FIFO of %s", spec.Name, owner)
		}
		h.fifos[o.FIFO] = spec.Name
	}
	in := inspect(h.sup).instance(spec.Name)
	for other := range inspect(h.sup).instances() {
		if other != in && in.exists() && other.Run().Exists() && sharesLogFile(in, other) {
			h.fail("%s is started while %s writes to its log file", spec.Name, other.name())
		}
	}
	if role != hosttest.RoleMain || h.adopting || !in.exists() || in.leaves() {
		return
	}
	p := inspect(h.sup).config().Program(config.ProgramOf(spec.Name))
	if p == nil {
		return
	}
	if in.Run().Exists() { // one that a trigger has started goes on with its old definition
		p = in.Run().Program()
	}
	want := 2
	if p.Log.Stderr == config.StderrMerge {
		want = 1
	}
	out := spec.Outputs
	if len(out) != want || want == 2 && out[0].FIFO == out[1].FIFO {
		h.fail("%s has the outputs %+v, want %d", spec.Name, out, want)
	}
	for _, o := range spec.Outputs {
		if direct := o.Direct != nil; direct != (p.Log.Format == config.LogDirect) {
			h.fail("%s writes directly to its file: %v, its format is %s", spec.Name, direct, p.Log.Format)
		}
	}
	if !reflect.DeepEqual(spec.Program.Limits, p.Limits) {
		h.fail("%s is started with the limits of another definition", spec.Name)
	}
}

// checkRecovered checks that a recovered main process keeps the limits with which it was started.
func (h *history) checkRecovered(p *hosttest.Process, r *host.RecoveredProcess) {
	began := h.kernel.Definition(p.Run)
	if began == nil || p.Role != hosttest.RoleMain || p.Instance != r.Instance {
		return
	}
	if !reflect.DeepEqual(r.Program.Limits, began.Limits) {
		h.fail("%s is recovered with the limits of another definition", r.Instance)
	}
}

// checkLogOptions checks that the output of a run stays where it went when the run began.
func (h *history) checkLogOptions(in instanceView, r instance.RunView) {
	began := h.kernel.Definition(r.ID())
	if began == nil || !r.HasProcess() {
		return
	}
	kind, files := began.Log.Sink, 0
	if kind == config.SinkFile || kind == "" { // tests leave it out
		if kind, files = "", 1; began.Log.Stderr == config.StderrSeparate {
			files = 2
		}
	}
	if has := in.logSink(); has != sink.Kind(kind) {
		h.fail("%s has the sink %q, it was started with %q", in.name(), has, kind)
	}
	if has := len(in.logFiles()); has != files {
		h.fail("%s has %d log files, it was started with %d", in.name(), has, files)
	}
}

// checkStore checks that the descriptor store has nothing that no record refers to.
func (h *history) checkStore() {
	if inspect(h.sup).shutdownBegun() {
		return // what is stored goes with the keeper
	}
	state, _ := h.journal.content()
	names := snapshot.Read(state, h.restore).FDNames()
	for _, name := range h.kernel.StoredNames() {
		if !slices.Contains(names, name) {
			h.fail("descriptor %s is stored, and no record refers to it", name)
		}
	}
}
