package instance

import (
	"strings"

	"superd/config"
	"superd/config/environ"
	"superd/logs"
	"superd/procs/host"
)

// spawnSpec returns the specification of a process of the run. record is nil for a process that a
// successor need not know.
func (r *run) spawnSpec(program *config.Program, record *startRecord) *host.SpawnSpec {
	in := r.in
	spec := &host.SpawnSpec{
		Name:        in.Name,
		Tree:        in.Tree,
		Program:     program,
		Environment: in.Env.Environment,
		Own:         runVariables(r),

		DirectoryRoots: in.Env.Paths.Directories,
	}
	if box := program.Sandbox; box != nil && box.PrivateTmp {
		spec.PrivateTmp = privateTmpOf(r)
	}
	if record != nil {
		spec.BeginsRun = !r.hadProcess
		spec.LogIntent, spec.StoreFDs, spec.LogSpawned = record.logIntent, record.storeFDs, record.logSpawned
	}
	for _, which := range OutputStreams(program) {
		if record != nil && in.Output.Collector.FD(which) < 0 {
			if in.Output.fifoNames[which] == 0 {
				in.Output.fifoNames[which] = host.FDNameOf(in.Env.FDs.Reserve(true))
			}
			record.value.FDNames[which] = in.Output.fifoNames[which].String()
		}
		output := host.Outlet{FIFO: in.Env.FIFOPath(in.Name, which), ReadFD: in.Output.Collector.FD(which)}
		if program.Log.Format == config.LogDirect {
			output.Direct = func(uid uint32) (int, error) { return in.Output.Collector.OpenDirect(which, uid) }
		}
		spec.Outputs = append(spec.Outputs, output)
	}
	if program.LoggerOf != "" && record != nil && record.value.Hook == nil {
		spec.Input = &host.Outlet{FIFO: in.Env.FIFOPath(in.Name, LoggerInput), ReadFD: in.Output.inputFD()}
	}
	return spec
}

// runVariables returns the variables that superd sets for the run.
func runVariables(r *run) environ.Variables {
	own := make(environ.Variables, 0, 7)
	own.Set("SUPERD_INSTANCE", r.in.Name)
	own.Set("SUPERD_INVOCATION_ID", r.invocationID)
	own.Set("SUPERD_NAME", r.program.Name)
	own.Set("SUPERD_OWNER", r.in.Env.Paths.RuntimeDir)
	own.Set("SUPERD_REPLICA", replicaNumber(r.in.Name))
	return own
}

// replicaNumber returns an instance's number within its program; "1" if it has none.
func replicaNumber(instance string) string {
	if _, number, numbered := strings.Cut(instance, "@"); numbered {
		return number
	}
	return "1"
}

// attach takes over the read ends of the FIFOs that were created for the start, in the order of the
// streams.
func (o *output) attach(record *startRecord, child host.Child) {
	in := o.in
	if child.InputFD > 0 {
		o.setInput(child.InputFD, in.Env.FDs.StoreFD(child.InputFD, true))
	}
	for which, fd := range child.ReadFDs {
		if fd < 0 {
			continue
		}
		if in.noOutput != "" {
			in.noOutput = ""
		}
		if name := record.value.FDNames[which]; name != "" && !record.stored {
			in.Env.FDs.Store(name, fd)
		}
		if err := o.Collector.Attach(logs.Stream(which), fd); err != nil {
			in.Env.Log.Error("output not captured", "instance", in.Name, "error", err)
		}
	}
}
