package snapshot

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
)

// fill sets v, and what it points to, to random values. With zeros, each is at times zero.
func fill(rng *rand.Rand, v reflect.Value, zeros bool) {
	if zeros && rng.IntN(3) == 0 {
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString([]string{"web", "a b", "<&>", "\"\\", "tab\t", "ü€", "\u2028", "\x7f"}[rng.IntN(8)])
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{1, -1, 100, -100, 1<<63 - 1}[rng.IntN(5)])
	case reflect.Uint64:
		v.SetUint([]uint64{1, 200, 1<<64 - 1}[rng.IntN(3)])
	case reflect.Pointer:
		if p, ok := v.Addr().Interface().(**config.Program); ok {
			*p = config.DefaultProgram("web")
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem(), zeros)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(3), 3))
		for i := range v.Len() {
			fill(rng, v.Index(i), zeros)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), zeros)
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = time.Unix(rng.Int64N(1<<31), 12345).UTC()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // the journal has it elsewhere
				fill(rng, v.Field(i), zeros)
			}
		}
	default:
		panic("no values for " + v.Type().String())
	}
}

// TestRecordsAreReadAsWritten: each record is read from JSON as it was written, with random values
// in its fields. It covers fields added later, too.
func TestRecordsAreReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []any{Superd{}, Instance{}, Start{}, Scale{}} {
		for i := range 5000 {
			v, read := reflect.New(reflect.TypeOf(r)), reflect.New(reflect.TypeOf(r))
			fill(rng, v.Elem(), i%2 == 0)
			text, err := json.Marshal(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, read.Interface()); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if !reflect.DeepEqual(read.Interface(), v.Interface()) {
				t.Fatalf("%s is read as\n%+v\nwant\n%+v", text, read.Elem(), v.Elem())
			}
		}
	}
}

// TestMachineIsPartOfTheRecord: each field of a machine's snapshot has its place in the record.
func TestMachineIsPartOfTheRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		want := fsm.Saved{Outdated: rng.IntN(2) == 0}
		fill(rng, reflect.ValueOf(&want).Elem(), true)
		v := Instance{Run: &Run{}}
		v.SetMachine(want)
		if got := v.Machine(); !reflect.DeepEqual(got, want) {
			t.Fatalf("in the record it is\n%+v\nwant\n%+v", got, want)
		}
	}
}

// TestProcessOfTheRun: a hook comes before the main process, which has ended then or does not exist
// yet.
func TestProcessOfTheRun(t *testing.T) {
	main, hook := &Process{Pid: 2, FDName: "4"}, &Process{Pid: 3}
	tests := []struct {
		name string
		run  *Run
		want *Process
	}{
		{"no run", nil, nil},
		{"nothing started yet", &Run{}, nil},
		{"a main process", &Run{Main: main}, main},
		{"a hook", &Run{Hook: &Hook{Process: hook}}, hook},
		{"a hook after the main process", &Run{Main: main, Hook: &Hook{Process: hook}}, hook},
		{"a hook that is not started yet", &Run{Main: main, Hook: &Hook{}}, nil},
	}
	for _, tt := range tests {
		if got := (&Instance{Run: tt.run}).Process(); got != tt.want {
			t.Errorf("%s: process %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestFDNames: no name in the descriptor store is reused that a record has.
func TestFDNames(t *testing.T) {
	s := &Snapshot{
		Instances: map[string]*Instance{"web": {FDName: "1", StderrFDName: "2", InputFDName: "3",
			Run: &Run{Main: &Process{FDName: "4"}, Notify: "5", Ready: "6"}}},
		Starts: map[string]*Start{"db": {Notify: "7", Ready: "8", FDNames: [2]string{"9", ""}}},
	}
	if got, want := s.FDNames(), []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}; !reflect.DeepEqual(got, want) {
		t.Errorf("FDNames() = %v, want %v", got, want)
	}
}
