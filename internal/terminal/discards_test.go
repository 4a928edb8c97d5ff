package terminal

import (
	"bytes"
	"os"
	"testing"
)

func TestDiscards(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !Discards(null) || Discards(file) || Discards(new(bytes.Buffer)) {
		t.Errorf("Discards: /dev/null %v, a file %v, a buffer %v", Discards(null), Discards(file), Discards(new(bytes.Buffer)))
	}
}
