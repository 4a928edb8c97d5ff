package sandbox

import (
	"iter"
	"path/filepath"
	"strings"
)

// rules returns the rules that the settings describe; nil if there are none.
func (l *Landlock) rules() *Rules {
	if !l.Enabled() {
		return nil
	}
	return &Rules{
		Read: beneath(l.Read), Write: beneath(l.Write), Execute: beneath(l.Execute),
		BindTCP: l.BindTCP, ConnectTCP: l.ConnectTCP,
	}
}

func beneath(paths []string) []Beneath {
	if paths == nil {
		return nil
	}
	all := make([]Beneath, len(paths))
	for i, path := range paths {
		bare, optional := strings.CutPrefix(path, "-")
		all[i] = Beneath{Path: filepath.Clean(bare), Optional: optional}
	}
	return all
}

// Files returns the lists of the rules about files, by key.
func (r *Rules) Files() iter.Seq2[string, []Beneath] {
	return func(yield func(string, []Beneath) bool) {
		_ = yield("landlock.read", r.Read) && yield("landlock.write", r.Write) && yield("landlock.execute", r.Execute)
	}
}

// RestrictsFiles reports whether the rules are about files.
func (r *Rules) RestrictsFiles() bool { return r.Read != nil || r.Write != nil || r.Execute != nil }

// RestrictsTCP reports whether the rules are about ports.
func (r *Rules) RestrictsTCP() bool { return r.BindTCP != nil || r.ConnectTCP != nil }
