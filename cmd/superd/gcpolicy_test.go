package main

import (
	"testing"
	"time"

	"superd/loop"
)

// TestPace counts begins and ends of a boost, and releases of memory.
func TestPace(t *testing.T) {
	type counts struct{ hurries, calms, releases int }
	step := func(f func(*gcPolicy)) func(*gcPolicy, *loop.Virtual) {
		return func(p *gcPolicy, _ *loop.Virtual) { f(p) }
	}
	pass := func(d time.Duration) func(*gcPolicy, *loop.Virtual) {
		return func(_ *gcPolicy, v *loop.Virtual) { v.RunFor(d) }
	}
	many, none := step(func(p *gcPolicy) { p.onStartQueue(true) }), step(func(p *gcPolicy) { p.onStartQueue(false) })
	rest, hurry := step((*gcPolicy).releaseLater), step((*gcPolicy).beginBoost)
	const long = releaseDelay + time.Millisecond
	for name, tt := range map[string]struct {
		steps []func(*gcPolicy, *loop.Virtual)
		want  counts
	}{
		"a start":                          {[]func(*gcPolicy, *loop.Virtual){rest, pass(long)}, counts{0, 1, 1}},
		"not yet":                          {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2)}, counts{0, 0, 0}},
		"a crowd at the start":             {[]func(*gcPolicy, *loop.Virtual){many, rest, pass(long)}, counts{0, 0, 0}},
		"its end":                          {[]func(*gcPolicy, *loop.Virtual){many, rest, pass(long), none, pass(long)}, counts{0, 1, 1}},
		"another one soon":                 {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2), many, pass(long)}, counts{0, 0, 0}},
		"another one later":                {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), many, none, pass(long)}, counts{1, 2, 2}},
		"a shutdown":                       {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), hurry, pass(long)}, counts{1, 1, 1}},
		"one in the midst of a crowd":      {[]func(*gcPolicy, *loop.Virtual){rest, pass(long), many, hurry, pass(long)}, counts{1, 1, 1}},
		"a rest that is put off by others": {[]func(*gcPolicy, *loop.Virtual){rest, pass(releaseDelay / 2), none, pass(releaseDelay/2 + 1)}, counts{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			v := loop.NewVirtual(1)
			var got counts
			calm := func() { got.calms++ }
			p := newGCPolicy(v.Root(), nil, calm)
			p.boost = func() func() { got.hurries++; return calm }
			p.release = func(calm func()) {
				got.releases++
				calm()
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
