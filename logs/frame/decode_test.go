package frame

import (
	"encoding/json"
	"testing"
	"time"
)

// TestDecoder: a decoder returns of each record what it returns of that record alone, whatever
// record precedes it.
func TestDecoder(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 1, 0, time.UTC)
	record := func(format Format, run, line string, end Ending) string {
		var r Recorder
		r.Reset(Header{Format: format, Program: `p"`, Instance: "p@1", Run: run}, Stdout, at)
		dst, _ := r.Append(make([]byte, 0, BufferBytes), []byte(line), end)
		return string(dst[:len(dst)-1])
	}
	var texts, jsons []string
	for _, line := range []string{"", "one", "two", `a "b" \ c`, "\x1b[1m", "é", "\xff", `","line":"x`, `"}`} {
		texts = append(texts, record(Text, "", line+"\n", AwaitMore))
		jsons = append(jsons, record(JSON, "aa", line+"\n", AwaitMore), record(JSON, "bb", line+"\n", AwaitMore))
	}
	texts = append(texts, record(Text, "", "part", WritePartial), "no record", "2026-11-21T07:00:01.000000Z stdout", "")
	jsons = append(jsons, record(JSON, "aa", "part", WritePartial), "no record", `{"line":"x"}`,
		`{"time":"2026-11-21T07:00:01.000000Z","line":"x","more":"y"}`, `{"time":"2026-11-21T07:00:01.000000Z","line":"z","more":"y"}`,
		`{"time":"2026-11-21T07:00:01.000000Z","line":"u","line":"v"}`, `{"time":"2026-11-21T07:00:01.000000Z","line":"u"w"}`, "")
	for format, records := range map[Format][]string{Text: texts, JSON: jsons} {
		for _, before := range records {
			for _, record := range records {
				var alone, second Decoder
				fields, line, ok := alone.Decode(format, []byte(record))
				second.Decode(format, []byte(before))
				got, gotLine, gotOK := second.Decode(format, []byte(record))
				if gotOK != ok || string(gotLine) != string(line) || ok && *got != *fields {
					t.Errorf("after %q, %q decodes to %v, %q, %v; alone to %v, %q, %v", before, record, got, gotLine, gotOK, fields, line, ok)
				}
				var want Record
				if format == JSON && json.Unmarshal([]byte(record), &want) == nil && want.Time != "" && string(line) != want.Line {
					t.Errorf("the line of %q is %q, want %q", record, line, want.Line)
				}
			}
		}
	}
}
