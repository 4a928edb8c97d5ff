package main

import (
	"testing"
	"time"

	"superd/loop"
)

// TestGCPolicy counts begins and ends of a boost, and releases of memory.
func TestGCPolicy(t *testing.T) {
	type counts struct{ boosts, ends, releases int }
	step := func(f func(*gcPolicy)) func(*gcPolicy, *loop.Virtual) {
		return func(p *gcPolicy, _ *loop.Virtual) { f(p) }
	}
	pass := func(d time.Duration) func(*gcPolicy, *loop.Virtual) {
		return func(_ *gcPolicy, v *loop.Virtual) { v.RunFor(d) }
	}
	many, none := step(func(p *gcPolicy) { p.onStartQueue(true) }), step(func(p *gcPolicy) { p.onStartQueue(false) })
	rest, boost := step((*gcPolicy).releaseLater), step((*gcPolicy).beginBoost)
	const long = releaseDelay + time.Millisecond
	for name, tt := range map[string]struct {
		steps []func(*gcPolicy, *loop.Virtual)
		want  counts
	}{
		"a start":                  {[]func(*gcPolicy, *loop.Virtual){rest, pass(long)}, counts{0, 1, 1}},
		"not yet":                  {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2)}, counts{0, 0, 0}},
		"many starts at the start": {[]func(*gcPolicy, *loop.Virtual){many, rest, pass(long)}, counts{0, 0, 0}},
		"its end":                  {[]func(*gcPolicy, *loop.Virtual){many, rest, pass(long), none, pass(long)}, counts{0, 1, 1}},
		"another one soon":         {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2), many, pass(long)}, counts{0, 0, 0}},
		"another one later":        {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), many, none, pass(long)}, counts{1, 2, 2}},
		"a shutdown":               {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), boost, pass(long)}, counts{1, 1, 1}},
		"a shutdown while many starts are queued": {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), many, boost, pass(long)}, counts{1, 1, 1}},
		"a release that others postpone":          {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2), none, pass(releaseDelay/2 + 1)}, counts{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			v := loop.NewVirtual(1)
			var got counts
			end := func() { got.ends++ }
			p := newGCPolicy(v.Root(), nil, end)
			p.boost = func() func() { got.boosts++; return end }
			p.release = func(endBoost func()) {
				got.releases++
				endBoost()
			}
			for _, step := range tt.steps {
				step(p, v)
			}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
