package follow

import (
	"testing"

	"superd/logs/logstest"
	"superd/logs/segment"
)

func TestEntryAsJSON(t *testing.T) {
	cursor, err := segment.ParseCursor("r10.11")
	logstest.Must(t, err)
	const at = "2026-11-21T07:00:01.000000Z"
	tests := []struct {
		entry Entry
		want  string
	}{
		{Entry{Time: at, Program: "p", Instance: "p@1", Run: "r", Stream: "stdout", Line: []byte(`a"`), Cursor: cursor},
			`{"time":"` + at + `","program":"p","instance":"p@1","run":"r","stream":"stdout","partial":false,"line":"a\"","cursor":"p@1:r10.11"}`},
		{Entry{Instance: "p", Line: []byte("\xff"), Partial: true, Cursor: cursor},
			`{"time":null,"program":"","instance":"p","run":null,"stream":null,"partial":true,"line":"\ufffd","bytes":"/w==","cursor":"p:r10.11"}`},
		{Entry{Instance: "p", Note: "gone", MissingBytes: 3, Cursor: cursor},
			`{"time":null,"program":"","instance":"p","note":"gone","lost_bytes":3,"cursor":"p:r10.11"}`},
		{Entry{Instance: "p", cursorOnly: true, Cursor: cursor}, `{"instance":"p","cursor":"p:r10.11"}`},
	}
	for _, tt := range tests {
		if got := string(tt.entry.AppendJSON(nil, tt.entry.Instance)); got != tt.want+"\n" {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
