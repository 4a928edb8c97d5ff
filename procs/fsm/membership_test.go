package fsm

import (
	"slices"
	"testing"
)

// TestMembership follows each sequence of up to six events beside the flags that an instance would
// need instead.
func TestMembership(t *testing.T) {
	type flags struct{ removed, replaced, removing bool }
	after := func(f flags, e MembershipEvent) flags {
		switch e {
		case Retire:
			f.removed, f.replaced = true, false
		case Replace:
			f.replaced = f.removed
		case DropReplacement:
			f.replaced = false
		case ComeToRest:
			f.removing = f.removed
		}
		return f
	}
	reached := map[Membership]bool{}
	var try func(m Membership, f flags, events []MembershipEvent)
	try = func(m Membership, f flags, events []MembershipEvent) {
		reached[m] = true
		got := flags{m.Leaves(), m.HasReplacement(), m.BeingRemoved()}
		if got != f || m.Stays() != (!f.removed || f.replaced) {
			t.Fatalf("after %v: %v, which means %+v, want %+v", events, m, got, f)
		}
		if len(events) == 6 {
			return
		}
		for e := range membershipEventCount {
			try(m.After(e), after(f, e), append(slices.Clip(events), e))
		}
	}
	try(Present, flags{}, nil)
	for m := range membershipCount {
		if !reached[m] || m.String() == "" {
			t.Errorf("%v (%d): reached %v", m, m, reached[m])
		}
	}
}
