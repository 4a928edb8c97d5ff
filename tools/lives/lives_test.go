package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

func TestVisits(t *testing.T) {
	tests := []struct {
		name          string
		files         []string
		want, returns int
	}{
		{"nothing is called", nil, 0, 0},
		{"one file", []string{"a", "a"}, 1, 0},
		{"a way without returns", []string{"a", "b", "b", "c"}, 3, 0},
		{"a service is called, and its caller goes on", []string{"a", "b", "a"}, 2, 1},
		{"each return counts", []string{"a", "b", "a", "b", "c", "a"}, 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l life
			for _, file := range tt.files {
				l.calls = append(l.calls, call{file: file})
			}
			if files, returns := l.visits(call.fileOf); files != tt.want || returns != tt.returns {
				t.Errorf("visits of %q = %d, %d, want %d, %d",
					tt.files, files, returns, tt.want, tt.returns)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	const text = `package p
func short() { a(); b(); c(); d() }
func long() { a(); b(); c(); d(); e() }
func nested() { if a() { b(); return }; c(); d() }
func snapshot() { a(); b(); c(); d(); e() }
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"short": false, "long": true, "nested": true, "snapshot": false}
	for _, d := range f.Decls {
		function := d.(*ast.FuncDecl)
		if got := counts(function); got != want[function.Name.Name] {
			t.Errorf("counts(%s) = %t, want %t", function.Name.Name, got, !got)
		}
	}
}
