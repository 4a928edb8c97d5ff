package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// Whatever the form of an answer, it is read as encoding/json reads it.
func TestReadBriefs(t *testing.T) {
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
		var want []Brief
		wantErr := json.Unmarshal([]byte(body), &want)
		got, err := readBriefs([]byte(body))
		if (err != nil) != (wantErr != nil) || err == nil && len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("readBriefs(%q) = %+v, %v; want %+v, %v", body, got, err, want, wantErr)
		}
	}
}

// What superd answers is cut up and not left to encoding/json.
func TestCutBriefs(t *testing.T) {
	body, want := someBriefs(t, 3)
	got, ok := cutBriefs(string(body), 3)
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("cutBriefs(%q) = %+v, %v; want %+v", body, got, ok, want)
	}
}

func FuzzReadBriefs(f *testing.F) {
	body, _ := someBriefs(f, 2)
	f.Add(string(body))
	f.Fuzz(func(t *testing.T, body string) {
		var want []Brief
		wantErr := json.Unmarshal([]byte(body), &want)
		got, err := readBriefs([]byte(body))
		if (err != nil) != (wantErr != nil) || err == nil && len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("readBriefs(%q) = %+v, %v; want %+v, %v", body, got, err, want, wantErr)
		}
	})
}

func BenchmarkReadBriefs(b *testing.B) {
	body, _ := someBriefs(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readBriefs(body); err != nil {
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
