package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options returns those of an image with binaries that are no binaries.
func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"superd", "superd-ui"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Options{
		Version: "1.2.3", Commit: "abc", Time: time.Unix(1_700_000_000, 0).UTC(), Configuration: "[superd]\n",
		Licence: "MIT\n", Binaries: map[string]string{"amd64": dir, "arm64": dir},
	}
}

// TestNew: there is an image for each architecture, of OCI's types, with the files that it needs
// and their modes.
func TestNew(t *testing.T) {
	index, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != 2 {
		t.Fatalf("the index is %+v, %v", manifest, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := manifest.Manifests[i]
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if d.Platform.Architecture != arch || d.MediaType != types.OCIManifestSchema1 {
			t.Errorf("image %d is %+v", i, d)
		}
		modes := map[string]int64{}
		files := tar.NewReader(mutate.Extract(image))
		for {
			h, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			modes[h.Name] = h.Mode
			if h.Uid != 0 || h.ModTime.Unix() != 1_700_000_000 {
				t.Errorf("%s belongs to %d and is of %v", h.Name, h.Uid, h.ModTime)
			}
		}
		for name, mode := range map[string]int64{
			"usr/bin/superd": 0o755, "usr/bin/superd-ui": 0o755, "etc/superd/superd.toml": 0o644, "run": 0o1777, "tmp": 0o1777,
			"etc/ssl/certs/ca-certificates.crt": 0o644, "etc/passwd": 0o644,
		} {
			if got, has := modes[name]; !has || got != mode {
				t.Errorf("%s: mode %o, there: %v, want %o", name, got, has, mode)
			}
		}
	}
}

// TestWriteArchive: the same options give the same bytes.
func TestWriteArchive(t *testing.T) {
	o := options(t)
	var built [2]bytes.Buffer
	for i := range built {
		index, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteArchive(&built[i], index, "superd:1.2.3", o.Time); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(built[0].Bytes(), built[1].Bytes()) {
		t.Error("two archives of the same image differ")
	}
	if !strings.Contains(built[0].String(), `"superd:1.2.3"`) {
		t.Error("the archive does not name its image")
	}
}
