package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"superd/config"
	"superd/procs/journal"
	"superd/tests/golden"
)

// TestGoldenJournals reads journals of each format that superd has had, as a real superd left them,
// and compares what it understands with golden files. Never change or remove a journal: some superd
// may have written it. TestJournalsAreUnderstood in tests adds those of a new format.
func TestGoldenJournals(t *testing.T) {
	paths, err := filepath.Glob("testdata/v*/*.journal")
	if err != nil || len(paths) == 0 {
		t.Fatalf("journals %v, %v; want some", paths, err)
	}
	for _, path := range paths {
		name := strings.TrimPrefix(strings.TrimSuffix(path, ".journal"), "testdata/")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			format := filepath.Dir(name)
			got := describe(Read(readJournal(t, text, format), config.Restore)) + "\n" + describeStarts(t, text, format)
			golden.Check(t, name+".txt", got)
		})
	}
}

// describeStarts returns what is understood of each start record when the journal ends with it, as
// if superd was killed then.
func describeStarts(t *testing.T, text []byte, format string) string {
	t.Helper()
	var b strings.Builder
	isStart := regexp.MustCompile(`"k":"start/([^"]+)/\d+","v":`)
	for end := 0; end < len(text); {
		end += bytes.IndexByte(text[end:], '\n') + 1
		line := text[:end]
		line = line[bytes.LastIndexByte(line[:end-1], '\n')+1:]
		if found := isStart.FindSubmatch(line); found != nil {
			s := Read(readJournal(t, text[:end], format), config.Restore)
			m := s.Merge(string(found[1]), current(s))
			fmt.Fprintf(&b, "cut: %s is %s: %s", found[1], m.State, describeStart(&m))
		}
	}
	return b.String()
}

// current returns the configuration that stays active; an empty one if it is unknown.
func current(s *Snapshot) *config.Config {
	if conf := s.Configs[s.Oldest()]; conf != nil {
		return conf
	}
	return &config.Config{}
}

// describeStart returns the start record of m, if it counts, and the process.
func describeStart(m *Merged) string {
	if m.Start == nil {
		return fmt.Sprintf("no start, process %s\n", encoded(m.Process()))
	}
	return fmt.Sprintf("start %d %s, process %s, main process ended: %v\n",
		m.Start.Number, encoded(m.Start), encoded(m.Process()), m.MainExited)
}

// readJournal returns the state of a journal of that format, as a superd of the same boot reads it.
func readJournal(t *testing.T, text []byte, format string) *journal.State {
	t.Helper()
	header := regexp.MustCompile(`"version":(\d+),"boot":"([^"]+)"`).FindSubmatch(text)
	if header == nil || "v"+string(header[1]) != format {
		t.Fatalf("the header says %q, want format %s", header, format)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	state, err := journal.Read(dir, string(header[2]))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// describe returns all that a snapshot says, as text.
func describe(s *Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "existed %v, other boot %v, incomplete %v, lives %v, last start %d, oldest configuration %d\n",
		s.Existed, s.OtherBoot, s.Incomplete, s.Lives(), s.LastStart, s.Oldest())
	fmt.Fprintf(&b, "obsolete %v, refused %v, stored descriptors %v\n", s.Obsolete, s.Refused, slices.Sorted(slices.Values(s.FDNames())))
	fmt.Fprintf(&b, "runs %v\n", slices.Sorted(maps.Keys(s.Runs())))
	fmt.Fprintf(&b, "superd %s\n", encoded(s.Superd))
	for _, number := range slices.Sorted(maps.Keys(s.Configs)) {
		fmt.Fprintf(&b, "configuration %d:", number)
		for _, p := range s.Configs[number].Programs {
			fmt.Fprintf(&b, " %s", p.Name)
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(s.Scales)) {
		fmt.Fprintf(&b, "scale %s %s\n", name, encoded(s.Scales[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Rolls)) {
		fmt.Fprintf(&b, "roll %s %s\n", name, encoded(s.Rolls[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
		fmt.Fprintf(&b, "schedule %s %s\n", name, encoded(s.Schedules[name]))
	}
	for _, name := range s.Names() {
		m := s.Merge(name, current(s))
		fmt.Fprintf(&b, "\n%s\n  %s\n", name, encoded(withoutDefinitions(*m.Instance)))
		if m.Definition != nil {
			fmt.Fprintf(&b, "  own definition: %s\n", settings(m.Definition))
		}
		if p := m.RunDefinition(nil); p != nil {
			fmt.Fprintf(&b, "  definition of the run: %s\n", settings(p))
		}
		if m.Program == nil {
			b.WriteString("  in no configuration\n")
		}
		if m.Start != nil {
			b.WriteString("  " + describeStart(&m))
		}
	}
	return b.String()
}

// withoutDefinitions returns the record without its definitions, which have settings that this
// superd may have got later.
func withoutDefinitions(v Instance) Instance {
	v.Definition = nil
	if v.Run != nil {
		run := *v.Run
		run.Definition = nil
		v.Run = &run
	}
	return v
}

// settings returns how a definition differs from the default one. A setting that an old record
// lacks, and whose default is not zero, appears here.
func settings(p *config.Program) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s at %s:%d %q %v", p.Name, filepath.Base(p.File), p.Line, p.Command, p.Environment)
	got, standard := reflect.ValueOf(*p.Settings), reflect.ValueOf(*config.DefaultProgram(p.Name).Settings)
	for i := range got.NumField() {
		if value := got.Field(i).Interface(); !reflect.DeepEqual(value, standard.Field(i).Interface()) {
			fmt.Fprintf(&b, " %s=%s", got.Type().Field(i).Name, encoded(value))
		}
	}
	return b.String()
}

// encoded returns a value as JSON, with every field of a record that is not zero.
func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
