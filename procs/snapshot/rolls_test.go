package snapshot

import (
	"encoding/json"
	"testing"

	"superd/procs/journal"
)

// TestRolls: a roll that this superd can't use is dropped, and nothing else depends on it.
func TestRolls(t *testing.T) {
	const good = `{"stage":"restart","extra":1,"turns":{"web@1":{"run":"a","taken":true},"web@2":{}}}`
	s := Read(&journal.State{Existed: true, Values: map[string]json.RawMessage{
		SuperdKey:      json.RawMessage(`{"config":1}`),
		RollKey("web"): json.RawMessage(good), RollKey("odd"): json.RawMessage(`{"stage":"later"}`),
		RollKey("many"): json.RawMessage(`{"stage":"start","extra":20000}`), RollKey("bad"): json.RawMessage(`[]`),
	}}, nil)
	if text, err := json.Marshal(s.Rolls["web"]); err != nil || string(text) != good {
		t.Errorf("read as %s, %v; want %s", text, err, good)
	}
	if len(s.Rolls) != 1 || len(s.Refused) != 3 || s.Incomplete {
		t.Errorf("%+v; refused %v, incomplete %v", s.Rolls, s.Refused, s.Incomplete)
	}
	for _, r := range s.Refused {
		if got := r.String(); got != "journal record not understood: the rolling restart ends here" {
			t.Errorf("%s: %q", r.Key, got)
		}
	}
}
