// Package snapshottest helps to test that a part snapshots what it was restored from, in each field
// of a record, also in those added later.
package snapshottest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"superd/config"
)

// Fill sets each field of a record, and what it points to, to another value. It leaves definitions
// alone.
func Fill(record any) {
	fill(reflect.ValueOf(record).Elem(), new(int64(time.Hour)))
}

// fill sets v and what it points to. next is the last value that was used.
func fill(v reflect.Value, next *int64) {
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint(*next % 1000))
	case reflect.Int:
		v.SetInt(*next % 1000)
	case reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Uint32:
		v.SetUint(uint64(*next % 1000))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*config.Program]() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), next)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(*next, 0)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	default:
		panic("no values for " + v.Type().String())
	}
}

// Compare compares the fields of two records, and of the records in them, apart from those in
// except: "Run.Main".
func Compare(t *testing.T, want, got any, except []string) {
	t.Helper()
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for i := range w.NumField() {
		name := w.Type().Name() + "." + w.Type().Field(i).Name
		a, b := w.Field(i), g.Field(i)
		switch {
		case slices.Contains(except, name):
		case (name == "Instance.Run" || name == "Run.Hook") && !b.IsNil():
			Compare(t, a.Elem().Interface(), b.Elem().Interface(), except)
		case !reflect.DeepEqual(a.Interface(), b.Interface()):
			t.Errorf("%s: restored %+v, snapshot %+v", name, a, b)
		}
	}
}
