package procs

import (
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/probe"
)

// maxConcurrentChecks bounds how many readiness and health checks run at a time, not counting those
// that hang.
const maxConcurrentChecks = 32

// A platform is what the supervisor runs on: its options, the loop, the host, the stores and the
// sources of chance. Most parts of the supervisor embed it. It decides nothing, and none of its
// fields changes after the start.
type platform struct {
	options     Options
	loop        *loop.Loop
	scope       *loop.Scope
	host        host.Host
	store       *logs.Store
	log         *slog.Logger
	random      *rand.ChaCha8
	rng         *rand.Rand // draws from random
	prober      *probe.Prober
	environment config.Variables // environment that programs inherit
	startedAt   time.Duration
}

func newPlatform(o Options) *platform {
	if o.Archive == nil {
		o.Archive = (*config.Config).Archive
	}
	random := rand.NewChaCha8(o.Seed)
	return &platform{
		options:     o,
		loop:        o.Loop,
		scope:       o.Loop.Root().Child(),
		host:        o.Host,
		store:       o.Store,
		log:         o.Log,
		random:      random,
		rng:         rand.New(random),
		prober:      probe.New(o.Loop, maxConcurrentChecks, random.Uint64()),
		environment: config.Inherited(o.Environment),
		startedAt:   o.Loop.Now(),
	}
}

// newInvocationID returns 128 random bits in hexadecimal.
func (p *platform) newInvocationID() string {
	var id [16]byte
	p.random.Read(id[:])
	return hex.EncodeToString(id[:])
}

// wallAt returns the wall-clock time of a time on the loop's clock. It is computed anew in each
// turn, so that it stays right when the wall clock is stepped.
func (p *platform) wallAt(at time.Duration) time.Time { return p.loop.WallAt(at) }

// fifoPath returns the path of the FIFO of a stream. Paths are unique, as no instance name has a
// colon.
func (p *platform) fifoPath(instance string, which logs.Stream) string {
	switch which {
	case logs.Stderr:
		instance += ":stderr"
	case input:
		instance += ":stdin"
	case logs.Stdout: // has the plain name
	}
	return filepath.Join(p.options.Paths.FIFODir, instance)
}
