package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// readsAsJSON fails if body is not read as encoding/json reads it.
func readsAsJSON[T any](t *testing.T, body string, cut func(*cutter) T) {
	t.Helper()
	var want []T
	wantErr := json.Unmarshal([]byte(body), &want)
	got, err := readArray(body, cut)
	if (err != nil) != (wantErr != nil) || err == nil && len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("readArray(%q) = %+v, %v; want %+v, %v", body, got, err, want, wantErr)
	}
}

// Whatever the form of an answer, it is read as encoding/json reads it.
func TestReadArray(t *testing.T) {
	for _, body := range []string{
		"[]\n", "[]", "null", "", "[", "{}", "[null]", "x",
		`[{"name":"web","state":"running","pid":12}]` + "\n",
		`[{"name":"web","state":"running","pid":12},{"name":"db@2","state":"failed","pid":null}]` + "\n",
		`[{"name":"web","state":"running","pid":12},]`,
		`[{"name":"web","state":"running","pid":12}`,
		`[{"name":"web","state":"running","pid":12}]]`,
		`[{"name":"web","state":"running","pid":12}{"name":"db","state":"failed","pid":null}]`,
		`[ {"name":"web","state":"running","pid":12}]`,
		`[{"name":"web","state":"running","pid":-1}]`,
		`[{"name":"web","state":"running","pid":+1}]`,
		`[{"name":"web","state":"running","pid":01}]`,
		`[{"name":"web","state":"running","pid":1.0}]`,
		`[{"name":"web","state":"running","pid":}]`,
		`[{"name":"web","state":"running","pid":99999999999999999999}]`,
		`[{"name":"w\u0065b","state":"running","pid":12}]`,
		"[{\"name\":\"w\x11b\",\"state\":\"running\",\"pid\":12}]",
		"[{\"name\":\"w\xffb\",\"state\":\"running\",\"pid\":12}]",
		`[{"name":"wéb","state":"running","pid":12}]`,
		`[{"name":"{web","state":"running","pid":12}]`,
		`[{"name":"web","name":"db","state":"running","pid":12}]`,
		`[{"name":"web","state":"running","reason":"none","pid":12}]`,
		`[{"name":"web","state":"running","pid":12,"reason":"none"}]`,
	} {
		readsAsJSON(t, body, cutBrief)
	}
	whole, _ := json.Marshal(manyStatuses())
	for i := range whole {
		readsAsJSON(t, string(whole[:i])+string(whole[i+1:]), cutStatus)
		for _, c := range "\"\\0-.e ]\xff" {
			readsAsJSON(t, string(whole[:i])+string(c)+string(whole[i+1:]), cutStatus)
		}
	}
}

// manyStatuses returns a status without anything and one with everything.
func manyStatuses() []Status {
	at := time.Date(2026, 11, 21, 7, 20, 45, 250_000_000, time.FixedZone("", 3600))
	return []Status{{Name: "a", Groups: []string{}, State: "stopped"}, {
		Name: "web@2", Program: "web", Groups: []string{"g", "h"}, State: "running", Ready: true, Healthy: new(false), Pid: new(12), Since: &at, Uptime: new(1.25),
		Restarts: 3, Exit: &Exit{Code: new(1), Signal: new("SIGKILL"), At: at.UTC(), Known: true}, NextIn: new(0.5), CPU: new(100.0), RSS: new(int64(1 << 20)), LogFile: new("/l"),
		Stderr: "/e", LogSink: "syslog", LastLine: new("a \"b\" \\ <c>\tü"), Reason: new(""), StatusText: new("s"),
		HealthCheck: &HealthCheck{Passed: new(true), At: at, Took: 0.1, Reason: new("r"), Failures: 2}, DroppedBytes: 1, DroppedLines: 2,
		LogOutage: &LogOutage{at, "full", true},
	}}
}

// What superd answers is cut up and not left to encoding/json.
func TestCut(t *testing.T) {
	want := manyStatuses()
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	c := cutter{text: string(body)}
	var got []Status
	c.array(func() { got = append(got, cutStatus(&c)) })
	if !c.end() || !sameStatuses(got, want) {
		t.Errorf("%s is cut up into\n%+v\nwith %q left, want\n%+v", body, got, c.text, want)
	}
	body, briefs := someBriefs(t, 3)
	c = cutter{text: string(body)}
	var gotBriefs []Brief
	c.array(func() { gotBriefs = append(gotBriefs, cutBrief(&c)) })
	if c.skip("\n"); !c.end() || !reflect.DeepEqual(gotBriefs, briefs) {
		t.Errorf("%s is cut up into\n%+v\nwith %q left, want\n%+v", body, gotBriefs, c.text, briefs)
	}
}

// sameStatuses compares what is read again with what was written: the same times may have other zones.
func sameStatuses(a, b []Status) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

func FuzzReadArray(f *testing.F) {
	body, _ := someBriefs(f, 2)
	f.Add(string(body))
	body, _ = json.Marshal(manyStatuses())
	f.Add(string(body))
	f.Fuzz(func(t *testing.T, body string) {
		readsAsJSON(t, body, cutBrief)
		readsAsJSON(t, body, cutStatus)
	})
}

func BenchmarkReadBriefs(b *testing.B) {
	body, _ := someBriefs(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readArray(string(body), cutBrief); err != nil {
			b.Fatal(err)
		}
	}
}

func someBriefs(t testing.TB, count int) (body []byte, all []Brief) {
	t.Helper()
	for i := range count {
		b := Brief{Name: fmt.Sprintf("p%04d", i), State: "running"}
		if i%10 != 9 {
			b.Pid = new(1000 + i)
		}
		all = append(all, b)
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return append(body, '\n'), all
}
