package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// someStatuses returns an answer with that many instances.
func someStatuses(t testing.TB, count int) (body []byte, all []Status) {
	t.Helper()
	at := time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)
	for i := range count {
		name := fmt.Sprintf("p%04d", i)
		all = append(all, Status{Name: name, Program: name, Groups: []string{}, State: "running", Ready: true, Pid: new(1000 + i), Since: &at, Uptime: new(12.5),
			CPU: new(0.02), RSS: new(int64(1 << 20)), LogFile: new("/var/log/superd/" + name + ".log"), LastLine: new("a line of some length or so"), Reason: new("started")})
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return append(body, '\n'), all
}

// TestStatusInParts: an answer is read as it comes, in any parts. A truncated one is requested
// again; one that is no array is an error.
func TestStatusInParts(t *testing.T) {
	body, want := someStatuses(t, 300)
	l, path := listen(t)
	var parts, next []string // of the first answer and of all others
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		these := parts
		if next != nil {
			parts = next
		}
		for _, part := range these {
			if part == "cut" {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(part))
			_ = http.NewResponseController(w).Flush()
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	for n := 1; n < len(body)-1; n += len(body) / 7 {
		parts = []string{string(body[:n]), string(body[n:])}
		got, err := NewClient(path).Status(t.Context(), nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("status in parts of %d and %d bytes: %d instances, %v; want %d", n, len(body)-n, len(got), err, len(want))
		}
		parts = []string{string(body[:n]), "cut"}
		if got, err := hasty(path).Status(t.Context(), nil); err == nil {
			t.Errorf("status cut off after %d bytes: %d instances, want an error", n, len(got))
		}
		next = []string{string(body)}
		if got, err := NewClient(path).Status(t.Context(), nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("status cut off after %d bytes, then whole: %d instances, %v; want %d", n, len(got), err, len(want))
		}
		next = nil
	}
	for _, body := range []string{"{}", "12", "", "[", "[1]", "[{}"} {
		parts = []string{body}
		if _, err := hasty(path).Status(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "read answer of superd") {
			t.Errorf("status of %q: %v, want that the answer can't be read", body, err)
		}
	}
}

// hasty returns a client with a short time for repeated requests.
func hasty(path string) *Client {
	c := NewClient(path)
	c.repeatTimeout = time.Millisecond
	return c
}

// BenchmarkStatus reads the answer with 1,000 instances.
func BenchmarkStatus(b *testing.B) {
	body, _ := someStatuses(b, 1000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		all, err := decodeStatuses(bytes.NewReader(body))
		if err != nil || len(all) != 1000 {
			b.Fatal(len(all), err)
		}
	}
}

// BenchmarkBriefs reads the brief answer with 1,000 instances.
func BenchmarkBriefs(b *testing.B) {
	var sent []Brief
	for i := range 1000 {
		sent = append(sent, Brief{Name: fmt.Sprintf("p%04d", i), State: "running", Pid: new(1000 + i)})
	}
	body, err := json.Marshal(sent)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var all []Brief
		if err := json.Unmarshal(body, &all); err != nil || len(all) != 1000 {
			b.Fatal(len(all), err)
		}
	}
}
