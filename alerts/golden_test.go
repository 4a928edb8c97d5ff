package alerts

import (
	"encoding/json"
	"testing"
	"time"

	"superd/config/receiver"
	"superd/tests/golden"
)

// TestGoldenDelivery: receivers and templates of users read these keys, which docs/compatibility.md
// promises.
func TestGoldenDelivery(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 45, 250_000_000, time.UTC)
	d := Delivery{
		Version: version, ID: "17-1795677707350123", Receiver: "chat", Host: "a", SentAt: at.Add(time.Second), Attempt: 2,
		Alerts: []Alert{
			{
				ID: "17-1795677707350123", Number: 17, At: at, Condition: "failed", Instance: "web@2", Program: "web",
				Groups: []string{"front"}, Text: "web@2 has failed: exit status 3", Reason: "exit status 3", ReasonKind: "exited",
				State: "failed", Run: "9f86d081884c7d659a2feaa0c55ad015", Exit: &Exit{Code: new(3), Known: true},
				Output: []string{"no settings"}, Since: at, Reminder: 1, Recovers: []receiver.Condition{},
			},
			{
				ID: "18-1795677708350123", Number: 18, At: at, Condition: "recovered", Instance: "db", Program: "db",
				Groups: []string{}, Output: []string{}, Since: at, Recovers: []receiver.Condition{"failed"},
			},
		},
		More: []More{{Condition: "failed", Count: 2, Programs: []string{"api"}, First: 19, Last: 20}},
		Lost: &Lost{Events: new(uint64(3)), Reason: "the event log is full", UpTo: 16},
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "delivery.json", string(text)+"\n")
}
