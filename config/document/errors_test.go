package document

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestKeyErrorAsJSON(t *testing.T) {
	got, err := json.Marshal(Errors{{File: "a.toml",
		Line: 2, Column: 3, Key: "superd.log_dir", Err: errors.New("is \"x\"")}})
	if want := `[{"file":"a.toml","line":2,"column":3,"key":"superd.log_dir","message":"is \"x\""}]`; err != nil || string(got) != want {
		t.Errorf("json = %s, %v, want %s", got, err, want)
	}
}
