package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// refName is the annotation that names an image in an OCI layout. Source: the OCI image format,
// "Image Layout Specification".
const refName = "org.opencontainers.image.ref.name"

// WriteArchive writes the index as an OCI archive: a tar file of an OCI layout, in which it has
// that name. All files have that time.
func WriteArchive(out io.Writer, index v1.ImageIndex, name string, at time.Time) error {
	dir, err := os.MkdirTemp("", "superd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write image layout: %w", err)
	}
	if err := root.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: name})); err != nil {
		return fmt.Errorf("write image layout: %w", err)
	}
	return archive(out, dir, at)
}

// archive writes a tar file of a directory, in the order of the names.
func archive(out io.Writer, dir string, at time.Time) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR})
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: at, Format: tar.FormatUSTAR,
		}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return w.Close()
}
