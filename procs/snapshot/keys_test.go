package snapshot

import (
	"math"
	"testing"
)

func TestParseKey(t *testing.T) {
	tests := []struct {
		text string
		want key
	}{
		{SuperdKey, key{kind: superdRecord}},
		{ConfigKey(1), key{kind: configRecord, number: 1}},
		{ConfigKey(math.MaxUint64), key{kind: configRecord, number: math.MaxUint64}},
		{InstanceKey("web@2"), key{kind: instanceRecord, name: "web@2"}},
		{ScheduleKey("daily"), key{kind: scheduleRecord, name: "daily"}},
		{RollKey("web"), key{kind: rollRecord, name: "web"}},
		{ScaleKey("web"), key{kind: scaleRecord, name: "web"}},
		{StartKey("web@2", 12), key{startRecord, "web@2", 12}},
		{StartKey("a/b", 12), key{startRecord, "a/b", 12}},

		{"", key{}},
		{"instance", key{}},
		{"instance/", key{}},
		{"superd/web", key{}},
		{"config/", key{}},
		{"config/0", key{}},
		{"config/-1", key{}},
		{"config/1x", key{}},
		{"start/web", key{}},
		{"start/7", key{}},
		{"start//7", key{}},
		{"start/web/", key{}},
		{"start/web/0", key{}},
		{"secret/web", key{}},
	}
	for _, tt := range tests {
		if got := parseKey(tt.text); got != tt.want {
			t.Errorf("parseKey(%q) = %+v, want %+v", tt.text, got, tt.want)
		}
	}
}
