package report

import (
	"testing"

	"superd/control"
)

// TestWhyOfACorrectedKey checks that a corrected mistake is not reported again as a changed value.
func TestWhyOfACorrectedKey(t *testing.T) {
	keys := []control.KeyChange{
		{Key: "log.address", Text: `log.address = "/dev/log"`}, {Key: "groups", Text: "groups [] -> [g]"}, {Key: "log.address", Restart: true, Text: "log.address corrected"},
	}
	if got, want := why(keys, true), "log.address corrected; (live: groups [] -> [g])"; got != want {
		t.Errorf("why = %q, want %q", got, want)
	}
}
