package config

import (
	"cmp"
	"fmt"
)

// RefuseReplicas returns why the operator can't give a program so many replicas; empty if it is
// possible.
func (p *Program) RefuseReplicas(n int) string {
	switch {
	case n < 0 || n > MaxReplicas:
		return fmt.Sprintf("the number of replicas must be from 0 to %d, got %d", MaxReplicas, n)
	case p.Accepts():
		return "it has a process for each connection: change max_connections"
	case len(p.Invalid) > 0:
		return "its configuration has a mistake: " + p.Invalid.Error()
	case (p.Log.File != "" || p.Log.StderrFile != "") && n > 0:
		return fmt.Sprintf("%q would be the log file of several instances; without it each has <instance>.log", cmp.Or(p.Log.File, p.Log.StderrFile))
	case p.PIDFile != "" && !namesReplica(p.PIDFile) && n > 1:
		return fmt.Sprintf("%q would be the pid file of several instances; with ${SUPERD_REPLICA} in it each has its own", p.PIDFile)
	case p.SharedDirectory() != "" && n > 1:
		return fmt.Sprintf("the runtime directory %q would be removed with each instance; with ${SUPERD_REPLICA} in it each has its own", p.SharedDirectory())
	}
	return ""
}
