package onconnect

// A source is where connections to a program come from.
type source struct{ program, addr string }

// sources count the connections that are served by where they come from, as far as this superd has
// accepted them.
type sources struct {
	of     map[string]source // by instance
	counts map[source]int
}

func newSources() *sources { return &sources{map[string]source{}, map[source]int{}} }

// count returns how many connections of a program from an IP address are served.
func (s *sources) count(program, addr string) int { return s.counts[source{program, addr}] }

// set records where the connection of an instance comes from.
func (s *sources) set(instance string, from source) {
	s.clear(instance)
	s.of[instance] = from
	s.counts[from]++
}

// clear records that an instance has no connection any more.
func (s *sources) clear(instance string) {
	from, has := s.of[instance]
	if !has {
		return
	}
	delete(s.of, instance)
	if s.counts[from]--; s.counts[from] == 0 {
		delete(s.counts, from)
	}
}

// keep clears the instances of a program that serving does not have.
func (s *sources) keep(program string, serving func(program string) map[string]bool) {
	if len(s.of) == 0 {
		return
	}
	now := serving(program)
	for instance, from := range s.of {
		if from.program == program && !now[instance] {
			s.clear(instance)
		}
	}
}
