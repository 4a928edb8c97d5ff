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

// A filler sets values to random ones.
type filler struct {
	rng     *rand.Rand
	zeros   bool // at times zero
	texts   []string
	numbers []int64
}

// oddValues returns a filler for values that an encoder may get wrong.
func oddValues() *filler {
	return &filler{rand.New(rand.NewPCG(1, 2)), true,
		[]string{"web", "a b", "<&>", "\"\\", "tab\t", "ü€", "\u2028", "\x7f"}, []int64{1, -1, 100, -100, 1<<31 - 1}}
}

// plainValues returns a filler that leaves nothing zero.
func plainValues() *filler {
	return &filler{rand.New(rand.NewPCG(1, 2)), false, []string{"web", "a b"}, []int64{1, 2, 100}}
}

// fill sets v, and what it points to.
func (f *filler) fill(v reflect.Value) {
	if f.zeros && f.rng.IntN(3) == 0 {
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(f.texts[f.rng.IntN(len(f.texts))])
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(f.numbers[f.rng.IntN(len(f.numbers))])
	case reflect.Uint8: // a resource
		v.SetUint(uint64(1 + f.rng.IntN(15)))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{1, 200, 1<<32 - 1}[f.rng.IntN(3)])
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("KEY"), reflect.ValueOf("value"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+f.rng.IntN(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Struct:
		f.fillStruct(v)
	default:
		panic("no values for " + v.Type().String())
	}
}

func (f *filler) fillStruct(v reflect.Value) {
	switch s := v.Addr().Interface().(type) {
	case *time.Time:
		*s = time.Unix(f.rng.Int64N(1<<31), 12345).UTC()
		return
	case *config.Program: // without mistakes: see WithoutMistakes
		s.Settings = &config.Settings{}
		f.fill(reflect.ValueOf(s.Settings).Elem())
		s.Name, s.Command, s.File, s.Line = "web", []string{"web", "a b"}, "web.toml", 7
		s.Environment, s.LoggerOf = map[string]string{"KEY": "value"}, "web"
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") != "-" { // the journal has it elsewhere
			f.fill(v.Field(i))
		}
	}
}

// TestRecordsAreReadAsWritten: each record is read from JSON as it was written, with random values
// in its fields. It covers fields added later, too.
func TestRecordsAreReadAsWritten(t *testing.T) {
	f := oddValues()
	for _, r := range []any{Superd{}, Instance{}, Start{}, Scale{}} {
		for range 5000 {
			v, read := reflect.New(reflect.TypeOf(r)), reflect.New(reflect.TypeOf(r))
			f.fill(v.Elem())
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
	f := oddValues()
	for range 1000 {
		want := fsm.Saved{Outdated: f.rng.IntN(2) == 0}
		f.fillStruct(reflect.ValueOf(&want).Elem())
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
