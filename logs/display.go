package logs

import (
	"context"

	"superd/logs/follow"
	"superd/logs/frame"
)

// A Display is where a [Store] shows the output of its collectors. Its functions may be called from
// any goroutine.
type Display struct {
	Expect func(name string)            // a collector of that name exists; must not block
	Open   func(name string) LineWriter // where to show a log that has output

	tails *follow.Tails
}

// A LineWriter shows whole lines.
type LineWriter = follow.LineWriter

// ShowOn makes the store show on d what its collectors write to their files. A log without output
// costs nothing. ShowOn has to be called before there are collectors.
func (s *Store) ShowOn(d *Display) {
	d.tails = follow.NewTails()
	s.display = d
}

// AwaitShown returns when all output of closed collectors is shown. If ctx ends first, it returns
// the error of ctx.
func (s *Store) AwaitShown(ctx context.Context) error {
	if s.display == nil {
		return nil
	}
	return await(ctx, "output to be shown", s.display.tails.Wait)
}

// show begins to show the logs that have output by now and are not shown yet.
func (c *Collector) show() {
	d := c.store.display
	if d == nil {
		return
	}
	for _, s := range c.all() {
		segs, _ := s.Segments()
		if segs == nil || segs.OutputEnd().Format != frame.Direct && segs.First() == segs.End() {
			continue
		}
		c.shared.Lock()
		shown := c.shared.shown[s.which]
		c.shared.shown[s.which] = true
		c.shared.Unlock()
		if !shown {
			d.tails.Add(s, d.Open(c.name))
		}
	}
}
