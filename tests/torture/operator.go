package torture

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"superd/control"
	"superd/tests/child"
)

// An operator gives random commands and repeats each until superd has answered.
type operator struct {
	client *control.Client
	toys   []program
	rng    *rand.Rand

	mu       sync.Mutex
	targets  map[string]bool // up or down, by the last command that was answered
	starts   map[string]int  // how often a one-shot may have been asked to run
	commands int
	wrong    []error // answers that no kill explains
}

func newOperator(socket string, all []program, seed uint64) *operator {
	return &operator{
		client:  control.NewClient(socket),
		toys:    pick(all, func(p program) bool { return p.toy }),
		rng:     rand.New(rand.NewPCG(seed, 1)),
		targets: map[string]bool{},
		starts:  map[string]int{},
	}
}

// work gives commands until ctx is done, and then completes the current one.
func (o *operator) work(ctx context.Context) {
	for ctx.Err() == nil {
		toy := o.toys[o.rng.IntN(len(o.toys))]
		verb := [...]string{"start", "stop", "restart", "start", "reload"}[o.rng.IntN(5)]
		o.command(verb, toy, o.rng.IntN(3) == 0)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(o.rng.IntN(20)) * time.Millisecond):
		}
	}
}

// command repeats one command until it is answered.
func (o *operator) command(verb string, toy program, wait bool) {
	for begin := time.Now(); ; {
		if toy.kind == child.Once && verb != "stop" && verb != "reload" {
			o.mu.Lock()
			o.starts[toy.name]++
			o.mu.Unlock()
		}
		err := o.request(verb, toy.name, wait)
		wait = false // superd may be killed before the wait is over
		o.mu.Lock()
		switch {
		case err == nil:
			o.commands++
			if verb != "reload" {
				o.targets[toy.name] = verb != "stop"
			}
		case time.Since(begin) > time.Minute:
			o.wrong = append(o.wrong, err)
		default:
			o.mu.Unlock()
			time.Sleep(10 * time.Millisecond) // superd is starting
			continue
		}
		o.mu.Unlock()
		return
	}
}

// request returns an error if superd has not answered. A one-shot that fails, or is stopped
// meanwhile, counts as an answer.
func (o *operator) request(verb, name string, wait bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if verb == "reload" {
		_, err := o.client.Reload(ctx)
		return err
	}
	_, err := o.client.Command(ctx, verb, []string{name}, wait, 0)
	return err
}
