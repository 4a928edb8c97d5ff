package server

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"superd/control"
	"superd/procs"
)

// draw fills v with random values, of which many are nothing.
func draw(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			draw(rng, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(rng.Int64N(1<<33), rng.Int64N(1e9)).In(time.FixedZone("", rng.IntN(9)*1800))))
			return
		}
		for i := range v.NumField() {
			draw(rng, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
		for i := range v.Len() {
			draw(rng, v.Index(i))
		}
	case reflect.String:
		texts := []string{"", "web@2", `a "b" \c`, "<&>", "tab\tü€\u2028", "bad \xff\x7f"}
		v.SetString(texts[rng.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(rng.IntN(2) > 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(rng.Int64N(5) * rng.Int64N(1<<40))
	case reflect.Float64:
		numbers := []float64{0, 1, 0.1, 1e-7, 12345.678, 1e22, -3.5}
		v.SetFloat(numbers[rng.IntN(len(numbers))])
	default:
		panic("no value is drawn for " + v.Type().String())
	}
}

// TestEncodeAsJSON: what is encoded here is what encoding/json makes of it, each field of it.
func TestEncodeAsJSON(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var st control.Status
		draw(rng, reflect.ValueOf(&st).Elem())
		want, err := json.Marshal(&st)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendStatus(nil, &st); string(got) != string(want) {
			t.Fatalf("seed %d: the status is encoded as\n%s\nwant\n%s", seed, got, want)
		}
		all := make([]procs.Brief, rng.IntN(3))
		brief := make([]control.Brief, len(all))
		for i := range all {
			draw(rng, reflect.ValueOf(&brief[i]).Elem())
			all[i] = procs.Brief{Name: brief[i].Name, State: procs.Running}
			brief[i].State = procs.Running.String()
			if brief[i].Pid = nil; rng.IntN(2) > 0 {
				all[i].Pid = os.Getpid()
				brief[i].Pid = &all[i].Pid
			}
		}
		if want, err = json.Marshal(brief); err != nil {
			t.Fatal(err)
		}
		if got := appendBriefs(nil, all); string(got) != string(want) {
			t.Fatalf("seed %d: brief status is encoded as\n%s\nwant\n%s", seed, got, want)
		}
	}
}
