package main

import (
	"testing"
	"time"

	"superd/loop"
)

// TestPace counts begins and ends of a boost, and releases of memory.
func TestPace(t *testing.T) {
	type counts struct{ hurries, calms, releases int }
	step := func(f func(*pace)) func(*pace, *loop.Virtual) { return func(p *pace, _ *loop.Virtual) { f(p) } }
	pass := func(d time.Duration) func(*pace, *loop.Virtual) {
		return func(_ *pace, v *loop.Virtual) { v.RunFor(d) }
	}
	many, none := step(func(p *pace) { p.crowd(true) }), step(func(p *pace) { p.crowd(false) })
	rest, hurry := step((*pace).rest), step((*pace).hurry)
	const long = restPause + time.Millisecond
	for name, tt := range map[string]struct {
		steps []func(*pace, *loop.Virtual)
		want  counts
	}{
		"a start":                          {[]func(*pace, *loop.Virtual){rest, pass(long)}, counts{0, 1, 1}},
		"not yet":                          {[]func(*pace, *loop.Virtual){rest, pass(restPause / 2)}, counts{0, 0, 0}},
		"a crowd at the start":             {[]func(*pace, *loop.Virtual){many, rest, pass(long)}, counts{0, 0, 0}},
		"its end":                          {[]func(*pace, *loop.Virtual){many, rest, pass(long), none, pass(long)}, counts{0, 1, 1}},
		"another one soon":                 {[]func(*pace, *loop.Virtual){rest, pass(restPause / 2), many, pass(long)}, counts{0, 0, 0}},
		"another one later":                {[]func(*pace, *loop.Virtual){rest, pass(long), many, none, pass(long)}, counts{1, 2, 2}},
		"a shutdown":                       {[]func(*pace, *loop.Virtual){rest, pass(long), hurry, pass(long)}, counts{1, 1, 1}},
		"one in the midst of a crowd":      {[]func(*pace, *loop.Virtual){rest, pass(long), many, hurry, pass(long)}, counts{1, 1, 1}},
		"a rest that is put off by others": {[]func(*pace, *loop.Virtual){rest, pass(restPause / 2), none, pass(restPause/2 + 1)}, counts{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			v := loop.NewVirtual(1)
			var got counts
			calm := func() { got.calms++ }
			p := newPace(v.Root(), nil, calm)
			p.hasten = func() func() { got.hurries++; return calm }
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
