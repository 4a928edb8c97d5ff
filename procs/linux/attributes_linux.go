package linux

import (
	"superd/config"
	"superd/internal/execshim"
)

// attributesOf returns the attributes that a program and its hooks get.
func (k *Host) attributesOf(program *config.Program) execshim.Attributes {
	return execshim.Attributes{OOMScoreAdj: k.oomScoreAdj, Limits: program.Limits.Rlimits}
}
