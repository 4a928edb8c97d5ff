package instance

import (
	"fmt"
	"strings"
	"syscall"

	"superd/internal/signame"
)

// markUnkillable records that the instance has an unkillable process. A shutdown does not wait for
// it.
func (in *Instance) markUnkillable(why string) {
	in.clearUnkillable()
	in.ownProblems().unkillable = why
	in.Env.Log.Error("program is unkillable", "instance", in.Name, "reason", why)
	in.Node.Publish()
	in.Env.Owner.Changed()
	in.Env.Owner.UnkillableChanged(in, true)
}

func (in *Instance) clearUnkillable() {
	if in.unkillable != "" {
		in.unkillable = ""
		in.Env.Owner.UnkillableChanged(in, false)
		in.Node.Publish()
	}
}

// reportUnkillable reports processes that survived the kill signal, and their wait states.
func (in *Instance) reportUnkillable(sig syscall.Signal, pids ...int) {
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d survives %s: state %s",
			pid, signame.Name(sig), in.Env.Host.WaitsIn(pid).Text))
	}
	in.markUnkillable(strings.Join(text, "; "))
}
