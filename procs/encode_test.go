package procs

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"superd/config"
	"superd/procs/journal"
)

// fill sets v, and what it points to, to random values, each at times to its zero value.
func fill(rng *rand.Rand, v reflect.Value) {
	if rng.IntN(3) == 0 {
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString([]string{"web", "a b", "", "<&>", "\"\\", "tab\t", "ü€", "\xff", "\u2028", "\x7f"}[rng.IntN(10)])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{1, -1, 100, -100, 0}[rng.IntN(5)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{1, 2, 200, 0}[rng.IntN(4)])
		if v.Kind() == reflect.Uint64 && rng.IntN(2) == 0 {
			v.SetUint(1<<64 - 1)
		}
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		if p, ok := v.Addr().Interface().(**config.Program); ok {
			*p = config.DefaultProgram("web")
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = time.Unix(rng.Int64N(1<<31), 12345).UTC()
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(rng, f)
			}
		}
	}
}

// TestRecordsAreEncodedAsJSON: each record is encoded exactly as encoding/json does it, so that its
// readers know one form. It covers fields added later, too.
func TestRecordsAreEncodedAsJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, record := range []func() journal.Appender{
		func() journal.Appender { return new(savedInstance) },
		func() journal.Appender { return new(savedStart) },
	} {
		for range 5000 {
			v := record()
			for i := range reflect.ValueOf(v).Elem().NumField() {
				if f := reflect.ValueOf(v).Elem().Field(i); f.CanSet() {
					fill(rng, f)
				}
			}
			want, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.AppendJSON([]byte("before ")); !bytes.Equal(got, append([]byte("before "), want...)) {
				t.Fatalf("%T is encoded as\n%s\nwant\n%s", v, got, want)
			}
		}
	}
}
