package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"superd/config"
	"superd/procs/journal"
)

// stateOf returns the state of a whole journal with these values.
func stateOf(values map[string]string) *journal.State {
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{}}
	for key, text := range values {
		state.Values[key] = json.RawMessage(text)
	}
	return state
}

// numberedConfigs returns configurations 0 to n-1, and a Restorer that finds them by number.
func numberedConfigs(n int) ([]*config.Config, Restorer) {
	configs := make([]*config.Config, n)
	for i := range configs {
		configs[i] = &config.Config{}
	}
	return configs, func(archive []byte) (*config.Config, error) {
		var i int
		if err := json.Unmarshal(archive, &i); err != nil {
			return nil, err
		}
		return configs[i], nil
	}
}

// TestNewestConfiguration: the newest configuration with effects in the journal is active, whatever
// superd's own record says.
func TestNewestConfiguration(t *testing.T) {
	tests := []struct {
		name            string
		superd          string
		instance, start int // numbers of their configurations; 0: none
		written         int // number of configurations
		config, before  uint64
	}{
		{"superd's own record is the newest", `{"config":2,"before":1}`, 1, 1, 2, 2, 1},
		{"an instance's is newer", `{"config":1}`, 2, 1, 2, 2, 1},
		{"a start record is newer", `{"config":1}`, 1, 2, 2, 2, 1},
		{"another reload was under way", `{"config":2,"before":1}`, 3, 0, 3, 3, 1},
		{"the newest is lost", `{"config":1}`, 2, 0, 1, 1, 0},
		{"no effect of the newest", `{"config":1}`, 1, 0, 2, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			configs, restore := numberedConfigs(tt.written + 1)
			values := map[string]string{SuperdKey: tt.superd}
			for i := 1; i <= tt.written; i++ {
				values[ConfigKey(uint64(i))] = fmt.Sprint(i)
			}
			if tt.instance > 0 {
				values[InstanceKey("web")] = fmt.Sprintf(`{"config":%d,"state":"stopped","outcome":"down"}`, tt.instance)
			}
			if tt.start > 0 {
				values[StartKey("web", 1)] = fmt.Sprintf(`{"config":%d}`, tt.start)
			}
			s := Read(stateOf(values), restore)
			if s.Superd.Config != tt.config || s.Superd.Before != tt.before || s.Config() != configs[tt.config] {
				t.Errorf("active is %d (%p) after %d, want %d after %d", s.Superd.Config, s.Config(), s.Superd.Before, tt.config, tt.before)
			}
			if len(s.Refused) > 0 || s.Incomplete {
				t.Errorf("refused %v, incomplete %v; want neither", s.Refused, s.Incomplete)
			}
		})
	}
}

// TestConfigurationBeforeIsGone: superd was killed while it removed old configurations. The newest
// one is active, and the others are removed.
func TestConfigurationBeforeIsGone(t *testing.T) {
	configs, restore := numberedConfigs(7)
	s := Read(stateOf(map[string]string{
		SuperdKey: `{"config":6,"before":3}`, ConfigKey(5): `5`, ConfigKey(6): `6`,
	}), restore)
	if s.Config() != configs[6] || s.Oldest() != 6 || !slices.Equal(s.Obsolete, []string{ConfigKey(5)}) {
		t.Errorf("active %v, oldest %d, obsolete %v; want the newest, 6, and configuration 5",
			s.Config() == configs[6], s.Oldest(), s.Obsolete)
	}
}

// TestDefinitionOfRemovedConfiguration: a definition comes from the configuration that it names, or
// the next one that is left.
func TestDefinitionOfRemovedConfiguration(t *testing.T) {
	second, web := webConfig()
	s := &Snapshot{Configs: map[uint64]*config.Config{2: second, 4: {}}}
	for number, want := range map[uint64]*config.Program{1: web, 2: web, 3: nil, 4: nil, 5: nil} {
		if got := s.Definition(number, "web@2"); got != want {
			t.Errorf("Definition(%d) = %v, want %v", number, got, want)
		}
	}
}

// TestSameOr: a configuration that is known is not decoded.
func TestSameOr(t *testing.T) {
	_, failing := numberedConfigs(1)
	if _, err := SameOr(nil, failing)([]byte("x")); err == nil || !strings.HasPrefix(err.Error(), "restore configuration: ") {
		t.Errorf("error %v, want that of the configuration", err)
	}
	known, err := config.Load("testdata/superd.toml")
	if err != nil {
		t.Fatal(err)
	}
	same := SameOr(known, func([]byte) (*config.Config, error) { return nil, errors.New("not known") })
	if got, err := same(known.Archive()[:len(known.Archive())-1]); got != known || err != nil {
		t.Errorf("configuration %p, %v, want %p", got, err, known)
	}
}

// TestRefusedRecords: a record that this superd can't use counts as unknown. Processes that it may
// have described are searched for.
func TestRefusedRecords(t *testing.T) {
	const running = `"state":"running","desired":{"up":true},"outcome":"none"`
	instance := InstanceKey("web")
	tests := []struct {
		key, value string
		says       string // empty: it is accepted
		complete   bool   // no process can depend on it
		obsolete   bool
	}{
		{SuperdKey, `{"config":"x"}`, "cannot unmarshal", false, false},
		{SuperdKey, `{"config":1,"newer":true}`, "", true, false},
		{ConfigKey(1), `"x"`, "cannot unmarshal", false, false},
		{"newer/web", `"x"`, "", true, false},

		{instance, `{` + running + `,"run":{"id":"a","main":{"pid":2}}}`, "", true, false},
		{instance, `[]`, "cannot unmarshal", false, false},
		{instance, `null`, `unknown name ""`, false, false},
		{instance, `{"state":"asleep","outcome":"none"}`, `unknown name "asleep"`, false, false},
		{instance, `{"state":"stopped","outcome":"luck"}`, `unknown name "luck"`, false, false},
		{instance, `{"state":"stopped","outcome":"none","run":{"id":"a"}}`, "does not fit the run", false, false},
		{instance, `{` + running + `}`, "does not fit the run", false, false},
		{instance, `{` + running + `,"run":{"id":"a"}}`, "does not fit the run", false, false},
		{instance, `{"state":"running","outcome":"none","run":{"id":"a","main":{"pid":2}}}`, "not wanted up", false, false},
		{instance, `{"state":"teardown","outcome":"none","run":{"id":"a"}}`, "teardown with outcome none", false, false},
		{instance, `{"state":"stopped","outcome":"none","due":1}`, "with a pending restart", false, false},
		{instance, `{"state":"backoff","outcome":"retry","due":1}`, "", true, false},
		{instance, `{"state":"failed","outcome":"failed","due":1}`, "with outcome failed and a pending restart", false, false},
		{instance, `{"state":"failed","outcome":"start-limit-hit","due":1}`, "", true, false},
		{instance, `{"state":"spawning","outcome":"none","run":{"id":"a","hook":{"at":-1}}}`, "hook -1", false, false},
		{instance, `{"state":"stopped","outcome":"none","table":{"Name":"web"}}`, "without settings", false, false},
		{instance, `{"state":"spawning","outcome":"none","run":{"id":"a","table":{}}}`, "without settings", false, false},

		{StartKey("web", 3), `{"run":"a","hook":1}`, "", true, true},
		{StartKey("web", 3), `{"run":"a","hook":-1}`, "hook -1", false, true},
		{StartKey("web", 3), `{"run":1}`, "cannot unmarshal", false, true},
		{StartKey("web", 0), `{"run":1}`, "", true, false},

		{ScheduleKey("web"), `{"line":1}`, "cannot unmarshal", true, true},
		{ScheduleKey("web"), `{"line":"@daily"}`, "", true, false},
		{ScaleKey("web"), `{"replicas":2}`, "", true, false},
		{ScaleKey("web"), `{"replicas":-1}`, "-1 replicas", true, true},
		{ScaleKey("web"), `{"replicas":"x"}`, "cannot unmarshal", true, true},
	}
	for _, tt := range tests {
		values := map[string]string{SuperdKey: `{"config":1}`, ConfigKey(1): `0`}
		values[tt.key] = tt.value
		_, restore := numberedConfigs(2)
		s := Read(stateOf(values), restore)
		says := ""
		if len(s.Refused) > 0 {
			says = s.Refused[0].Err.Error()
		}
		if (says == "") != (tt.says == "") || !strings.Contains(says, tt.says) || len(s.Refused) > 0 && s.Refused[0].Key != tt.key {
			t.Errorf("%s %s: refused %v, want %q", tt.key, tt.value, s.Refused, tt.says)
		}
		if obsolete := slices.Contains(s.Obsolete, tt.key); s.Incomplete == tt.complete || obsolete != tt.obsolete {
			t.Errorf("%s %s: complete %v, obsolete %v; want %v, %v", tt.key, tt.value, !s.Incomplete, obsolete, tt.complete, tt.obsolete)
		}
		known := len(s.Instances) + len(s.Starts) + len(s.Schedules) + len(s.Scales)
		if tt.says != "" && known > 0 {
			t.Errorf("%s %s: it is refused and known", tt.key, tt.value)
		}
	}
}

// TestBadRecordText: the text says what superd uses instead.
func TestBadRecordText(t *testing.T) {
	for key, want := range map[string]string{
		InstanceKey("web"): "journal record not understood",
		ScaleKey("web"):    "journal record not understood: using the replicas of the configuration",
	} {
		if got := (BadRecord{Key: key}).String(); got != want {
			t.Errorf("text of %s: %q, want %q", key, got, want)
		}
	}
}

// TestIncomplete: damage, and a record of superd that is missing, leave room for processes that the
// journal does not have.
func TestIncomplete(t *testing.T) {
	self := map[string]string{SuperdKey: `{"config":1}`}
	tests := []struct {
		name   string
		state  *journal.State
		change func(*journal.State)
		want   bool
	}{
		{"whole", stateOf(self), func(*journal.State) {}, false},
		{"a damaged line", stateOf(self), func(s *journal.State) { s.Damaged = 1 }, true},
		{"its end is missing", stateOf(self), func(s *journal.State) { s.MissingBytes = 1 }, true},
		{"its length is unknown", stateOf(self), func(s *journal.State) { s.MissingBytes = -1 }, true},
		{"no record of superd", stateOf(nil), func(*journal.State) {}, true},
		{"no journal", stateOf(nil), func(s *journal.State) { s.Existed = false }, true},
		{"another boot", stateOf(self), func(s *journal.State) { s.OtherBoot = true }, true},
	}
	for _, tt := range tests {
		tt.change(tt.state)
		s := Read(tt.state, nil)
		if s.Incomplete != tt.want || s.Existed != tt.state.Existed {
			t.Errorf("%s: incomplete %v, existed %v; want %v, %v", tt.name, s.Incomplete, s.Existed, tt.want, tt.state.Existed)
		}
	}
}

// TestNewestStartCounts: of an instance's start records the newest counts, and all are removed.
func TestNewestStartCounts(t *testing.T) {
	s := Read(stateOf(map[string]string{
		SuperdKey:           `{"config":1}`,
		InstanceKey("web"):  `{"state":"spawning","outcome":"none","last_completed_start":12,"run":{"id":"x"}}`,
		StartKey("web", 9):  `{"run":"a"}`,
		StartKey("web", 10): `{"run":"b"}`,
		StartKey("web", 2):  `{"run":"c"}`,
		StartKey("db", 20):  `{"run":"d"}`,
	}), nil)
	if start := s.Starts["web"]; start == nil || start.Run != "b" || start.Number != 10 {
		t.Errorf("start %+v, want number 10", start)
	}
	if len(s.Obsolete) != 4 || s.LastStart != 20 || !s.Lives() || s.HasStart("web") || !s.HasStart("db") {
		t.Errorf("obsolete %v, last start %d, lives %v, has start %v, %v; want 4 keys, 20, true, false, true",
			s.Obsolete, s.LastStart, s.Lives(), s.HasStart("web"), s.HasStart("db"))
	}
	if runs := s.Runs(); !maps.Equal(runs, map[string]bool{"b": true, "d": true, "x": true}) || !slices.Equal(s.Names(), []string{"db", "web"}) {
		t.Errorf("runs %v, names %v; want b, d and x; db, web", runs, s.Names())
	}
}

// TestJournalOfAnotherBoot: of a journal of an earlier boot only the progress of schedules counts.
func TestJournalOfAnotherBoot(t *testing.T) {
	state := stateOf(map[string]string{
		SuperdKey: `{"config":1}`, ConfigKey(1): `0`, ScaleKey("web"): `{"replicas":2}`, StartKey("web", 7): `{"run":"a"}`,
		InstanceKey("gone"):  `{"state":"running"}`,
		InstanceKey("daily"): `{"state":"waiting","outcome":"none","schedule":{"line":"@daily","wall":"2026-01-01T00:00:00Z"}}`,
		ScheduleKey("ended"): `{"line":"@hourly"}`,
		ScheduleKey("bad"):   `1`,
		"newer/web":          `1`,
	})
	state.OtherBoot = true
	s := Read(state, nil)
	if s.Schedules["daily"].Line != "@daily" || s.Schedules["ended"].Line != "@hourly" || len(s.Schedules) != 2 {
		t.Errorf("schedules %v, want those of daily and ended", s.Schedules)
	}
	if len(s.Instances)+len(s.Starts)+len(s.Scales)+len(s.Configs) > 0 || s.LastStart != 0 || s.Superd != (Superd{}) {
		t.Errorf("it has %+v, want schedules only", s)
	}
	if keys := slices.Sorted(maps.Keys(state.Values)); !slices.Equal(slices.Sorted(slices.Values(s.Obsolete)), keys) {
		t.Errorf("obsolete %v, want %v", s.Obsolete, keys)
	}
}
