package fsm

// A Membership says whether the configuration has an instance, and how far its removal is.
type Membership uint8

// The memberships of an instance.
const (
	Present  Membership = iota // the configuration has it
	Retiring                   // the configuration no longer has it; it is removed when at rest
	// Like Retiring; an instance of the same name, with another definition, then takes its place
	Replaced
	Departing         // it is at rest; once its last output is written it is removed
	DepartingReplaced // both
	membershipCount
)

// A MembershipEvent is what happens to the membership of an instance.
type MembershipEvent uint8

// The events of a membership.
const (
	Retire          MembershipEvent = iota // it is to be removed, without a replacement so far
	Replace                                // another definition is to take its place
	DropReplacement                        // no other instance takes its place any more
	ComeToRest                             // it is at rest
	membershipEventCount
)

// memberships is never changed. A present instance is not replaced: it retires before.
var memberships = [membershipCount][membershipEventCount]Membership{
	Present:   {Retire: Retiring, Replace: Present, DropReplacement: Present, ComeToRest: Present},
	Retiring:  {Retire: Retiring, Replace: Replaced, DropReplacement: Retiring, ComeToRest: Departing},
	Replaced:  {Retire: Retiring, Replace: Replaced, DropReplacement: Retiring, ComeToRest: DepartingReplaced},
	Departing: {Retire: Departing, Replace: DepartingReplaced, DropReplacement: Departing, ComeToRest: Departing},
	DepartingReplaced: {Retire: Departing, Replace: DepartingReplaced, DropReplacement: Departing,
		ComeToRest: DepartingReplaced},
}

// After returns the membership after e.
func (m Membership) After(e MembershipEvent) Membership { return memberships[m][e] }

// Leaves reports whether the instance is to be removed.
func (m Membership) Leaves() bool { return m != Present }

// HasReplacement reports whether another instance takes its place.
func (m Membership) HasReplacement() bool { return m == Replaced || m == DepartingReplaced }

// Stays reports whether the configuration has the instance or its replacement.
func (m Membership) Stays() bool { return m == Present || m.HasReplacement() }

// BeingRemoved reports whether the removal has begun.
func (m Membership) BeingRemoved() bool { return m == Departing || m == DepartingReplaced }

var membershipNames = [membershipCount]string{
	Present: "present", Retiring: "retiring", Replaced: "replaced", Departing: "departing",
	DepartingReplaced: "departing-replaced",
}

// String returns the name of the membership.
func (m Membership) String() string { return membershipNames[m] }
