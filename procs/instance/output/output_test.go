package output

import (
	"reflect"
	"testing"

	"superd/logs"
	"superd/logs/frame"
	"superd/logs/sink"
)

// TestLogOptionsDuringRun: the output of a run keeps its format and its files. Rotation, and the
// address of a sink, may change.
func TestLogOptionsDuringRun(t *testing.T) {
	file := logs.Options{Path: "/log/a", Format: frame.Text, MaxSize: 1}
	syslog := logs.Options{Sink: "syslog", Address: "unix:/dev/log", Identifier: "a", Facility: 3}
	elsewhere := logs.Options{Sink: "syslog", Address: "udp:10.0.0.1:514", Identifier: "b", Facility: 16}
	journald := logs.Options{Sink: "journald", Address: "/run/journal", Identifier: "c"}
	tests := []struct {
		name             string
		began, now, want logs.Options
	}{
		{"another file", file, logs.Options{Path: "/log/b", Format: frame.JSON, MaxSize: 2}, logs.Options{Path: "/log/a", Format: frame.Text, MaxSize: 2}},
		{"the sink is elsewhere", syslog, elsewhere, elsewhere},
		{"another sink", syslog, journald, syslog},
		{"a file instead of a sink", syslog, file, logs.Options{Sink: "syslog", Address: "unix:/dev/log", Identifier: "a", Facility: 3, MaxSize: 1}},
		{"another command", logs.Options{Sink: sink.Command, Address: "a"}, logs.Options{Sink: sink.Command, Address: "b"}, logs.Options{Sink: sink.Command, Address: "a"}},
		{"a sink instead of a file", file, elsewhere, logs.Options{Path: "/log/a", Format: frame.Text}},
	}
	for _, tt := range tests {
		if got := optionsDuringRun(tt.began, tt.now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
