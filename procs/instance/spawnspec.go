package instance

import (
	"strconv"
	"strings"

	"superd/config"
	"superd/config/environ"
	"superd/procs/host"
	"superd/procs/instance/paths"
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
		spec.PrivateTmp = paths.PrivateTmp(r.in.Name, r.invocationID)
	}
	if record != nil {
		spec.BeginsRun = !r.hadProcess
		spec.LogIntent, spec.StoreFDs, spec.LogSpawned = record.logIntent, record.storeFDs, record.logSpawned
	}
	var names *[2]string // nil: the FIFOs have their names
	if record != nil {
		names = &record.value.FDNames
	}
	spec.Outputs = in.Output.Outlets(program, names)
	if record != nil && record.value.Hook == nil {
		spec.Input = in.Output.Input(program)
		spec.Terminal, spec.Screen = program.PTY, program.PTY
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
	for _, fd := range r.program.Sockets.FDs() {
		if fd.Variable != "" {
			own.Set(fd.Variable, strconv.Itoa(fd.Number))
		}
	}
	return own
}

// replicaNumber returns an instance's number within its program; "1" if it has none.
func replicaNumber(instance string) string {
	if _, number, numbered := strings.Cut(instance, "@"); numbered {
		return number
	}
	return "1"
}
