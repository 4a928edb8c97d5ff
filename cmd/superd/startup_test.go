//go:build linux

package main

import (
	"errors"
	"slices"
	"testing"
)

// TestStartIsUndone takes three steps: those that have succeeded are undone, the last one first.
func TestStartIsUndone(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name   string
		failed string // step; empty: none
		want   []string
	}{
		{"first step fails", "a", []string{"do a"}},
		{"step with an undo fails", "c", []string{"do a", "do b", "do c", "undo a"}},
		{"none fails", "", []string{"do a", "do b", "do c", "do d", "undo c", "undo a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			do := func(name string) func(*startup) error {
				return func(*startup) error {
					got = append(got, "do "+name)
					if name == tt.failed {
						return broken
					}
					return nil
				}
			}
			undo := func(name string) func(*startup) {
				return func(*startup) { got = append(got, "undo "+name) }
			}
			s := &startup{}
			err := s.take([]step{
				{do: do("a"), undo: undo("a")},
				{do: do("b")},
				{do: do("c"), undo: undo("c")},
				{do: do("d")},
			})
			s.undo()
			if failed := tt.failed != ""; errors.Is(err, broken) != failed {
				t.Errorf("take() = %v, want an error: %v", err, failed)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("steps were %q, want %q", got, tt.want)
			}
		})
	}
}
