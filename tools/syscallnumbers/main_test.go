package main

import (
	"bytes"
	"os"
	"testing"
)

// TestTable: the table is that of the module's version in go.mod.
func TestTable(t *testing.T) {
	table, err := os.ReadFile("../../sandbox/syscallnumbers.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table, source()) {
		t.Error("go -C tools run ./syscallnumbers > sandbox/syscallnumbers.go writes another table")
	}
}
