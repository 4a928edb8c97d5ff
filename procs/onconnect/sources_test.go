package onconnect

import "testing"

// TestSources: connections count for their source as long as they are served.
func TestSources(t *testing.T) {
	s := newSources()
	s.set("web", source{"web", "1"})
	s.set("web@2", source{"web", "1"})
	s.set("db", source{"db", "1"})
	s.set("web@2", source{"web", "1"}) // its next connection
	check := func(web, db int) {
		t.Helper()
		if a, b := s.count("web", "1"), s.count("db", "1"); a != web || b != db || s.count("web", "2") != 0 {
			t.Errorf("web has %d and db %d connections of the source, want %d and %d", a, b, web, db)
		}
	}
	check(2, 1)
	serving := map[string]bool{"web@2": true}
	s.keep("web", func(string) map[string]bool { return serving })
	check(1, 1)
	serving = nil // an instance that is removed, too
	s.keep("web", func(string) map[string]bool { return serving })
	s.clear("db")
	s.clear("db")
	if check(0, 0); len(s.of)+len(s.counts) != 0 {
		t.Errorf("it keeps %v and %v", s.of, s.counts)
	}
}
