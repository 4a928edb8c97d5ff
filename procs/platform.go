package procs

import (
	"math/rand/v2"
	"time"

	"superd/config"
	"superd/config/environ"
	"superd/procs/instance"
	"superd/procs/probe"
)

// maxConcurrentChecks bounds how many readiness and health checks run at a time, not counting those
// that hang.
const maxConcurrentChecks = 32

// A platform is what the supervisor runs on: its options, and what its instances run on. Most parts
// of the supervisor embed it. It decides nothing, and none of its fields changes after the start.
type platform struct {
	*instance.Env
	options   Options
	startedAt time.Duration
}

func newPlatform(o Options) *platform {
	if o.Archive == nil {
		o.Archive = (*config.Config).Archive
	}
	random := rand.NewChaCha8(o.Seed)
	return &platform{
		options: o,
		Env: &instance.Env{
			Loop:        o.Loop,
			Scope:       o.Loop.Root().Child(),
			Host:        o.Host,
			Store:       o.Store,
			Log:         o.Log,
			Random:      random,
			RNG:         rand.New(random),
			Prober:      probe.New(o.Loop, maxConcurrentChecks, random.Uint64()),
			Environment: environ.Inherited(o.Environment),
			Paths:       o.Paths,
			Rules:       o.tests.rules,
		},
		startedAt: o.Loop.Now(),
	}
}
