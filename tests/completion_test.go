package tests

import (
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestCompletionOfUI: the commands of superd-ui complete as those of superd do.
func TestCompletionOfUI(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.BuildUI()
	for _, tt := range []struct{ args, want string }{
		{"__complete top --ho", "--host\t"},
		{"__completeNoDesc top --ho", "--host\n"},
		{"__complete import superv", "supervisord\t"},
		{"__complete web --listen=:80 ", ":4\n"}, // nothing, and no files
	} {
		if got := s.Run(strings.Split(tt.args, " ")...); !strings.HasPrefix(got.Out, tt.want) {
			t.Errorf("superd %s: %q, want it to begin with %q: %s", tt.args, got.Out, tt.want, got.ErrOut)
		}
	}
}
