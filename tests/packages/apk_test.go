package packages

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// examineApk checks the apk as the tool does, which Debian does not have.
//
// Source: https://wiki.alpinelinux.org/wiki/Apk_spec
func examineApk(t *testing.T, built string) {
	path := only(t, built, "*_x86_64.apk")
	control, data := members(t, read(t, path))
	var scripts []string
	keys := map[string][]string{}
	each(t, control, func(h *tar.Header, body []byte) {
		if h.Name != ".PKGINFO" {
			scripts = append(scripts, h.Name)
			return
		}
		for line := range strings.Lines(string(body)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
				keys[key] = append(keys[key], value)
			}
		}
	})
	slices.Sort(scripts)
	if want := []string{".post-install", ".post-upgrade", ".pre-deinstall"}; !slices.Equal(scripts, want) {
		t.Errorf("scripts %q, want %q", scripts, want)
	}
	sum := sha256.Sum256(data)
	for key, want := range map[string]string{
		"pkgname": "superd", "pkgver": older + "-r1", "arch": "x86_64", "license": "MIT", "datahash": hex.EncodeToString(sum[:]),
	} {
		if !slices.Equal(keys[key], []string{want}) {
			t.Errorf("%s = %q, want %q", key, keys[key], want)
		}
	}
	files := 0
	each(t, data, func(h *tar.Header, body []byte) {
		if h.Typeflag != tar.TypeReg {
			return
		}
		files++
		sum := sha1.Sum(body) // the format has no other
		if got := h.PAXRecords["APK-TOOLS.checksum.SHA1"]; got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s has the checksum %s, want %x", h.Name, got, sum)
		}
	})
	if files < 60 {
		t.Errorf("%d files", files)
	}
}

// members returns the two gzip members of a package that is not signed: control and data.
func members(t *testing.T, file []byte) (control, data []byte) {
	t.Helper()
	b := bytes.NewReader(file)
	r := bufio.NewReader(b)
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	if _, err := io.Copy(io.Discard, z); err != nil {
		t.Fatal(err)
	}
	end := len(file) - b.Len() - r.Buffered()
	return file[:end], file[end:]
}

// each calls f with each entry of a compressed archive. That of the control member has no end.
func each(t *testing.T, compressed []byte, f func(h *tar.Header, body []byte)) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f(h, body)
	}
}
