// Command container writes an image of superd from scratch, as an OCI image layout: a directory, or
// a tar file of one, which podman, skopeo, containerd and Docker load.
//
// The same binaries give the same bytes: nothing in the image has a time, a name or a number of the
// machine that made it.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

// run writes the image that the arguments ask for.
func run(args []string) error {
	flags := flag.NewFlagSet("container", flag.ContinueOnError)
	output := flags.String("o", "superd-image.tar", "`file` or directory to write: a tar file if the name ends in .tar")
	name := flags.String("name", "superd:latest", "`name` under which engines load it")
	version := flags.String("version", "devel", "`version` of superd, for its label")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: container [-o FILE] [-version VERSION] ARCHITECTURE=DIRECTORY...\n"+
			"Each directory has superd and superd-ui for that architecture, as in amd64=.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("name the binaries: ARCHITECTURE=DIRECTORY, such as amd64=.")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flags.Args() {
		arch, dir, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("read %q: write ARCHITECTURE=DIRECTORY, such as amd64=.", arg)
		}
		image, err := imageOf(arch, dir, *version)
		if err != nil {
			return fmt.Errorf("make the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return write(index, *name, *output)
}

// Where superd keeps its files in the image.
const (
	runtimeDir = "/run/superd"
	configFile = "/etc/superd/superd.toml"
)

// binaries are what the image has, beside empty directories.
var binaries = []string{"superd", "superd-ui"}

// imageOf returns the image for one architecture.
func imageOf(arch, dir, version string) (v1.Image, error) {
	content, err := files(dir)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{
		CreatedBy: "superd, from scratch",
	}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/superd", "run"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"SUPERD_RUNTIME_DIR=" + runtimeDir},
		WorkingDir: "/",
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "superd",
			"org.opencontainers.image.description": "A process supervisor: runs the programs of " + configFile,
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.licenses":    "MIT",
		},
	}
	return mutate.ConfigFile(image, config)
}

// files returns the layer of the image as a tar file.
func files(dir string) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// A time that is the same for every build, and that no tool takes for a mistake
	epoch := time.Unix(1, 0)
	add := func(h tar.Header, content []byte) error {
		h.ModTime, h.Format = epoch, tar.FormatPAX
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	for _, d := range []struct {
		name string
		mode int64
	}{
		{"etc/", 0o755}, {"etc/superd/", 0o755}, {"usr/", 0o755}, {"usr/bin/", 0o755}, {"var/", 0o755},
		{"var/log/", 0o755}, {"run/", 0o1777}, {"tmp/", 0o1777}, // any user may run superd
	} {
		if err := add(tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode}, nil); err != nil {
			return nil, err
		}
	}
	for _, name := range binaries {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := add(tar.Header{Typeflag: tar.TypeReg, Name: path.Join("usr/bin", name), Mode: 0o755}, content); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// write writes an image layout into a directory, or into a tar file of one.
func write(index v1.ImageIndex, name, output string) error {
	if !strings.HasSuffix(output, ".tar") {
		return writeLayout(output, name, index)
	}
	dir, err := os.MkdirTemp(filepath.Dir(output), ".image-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeLayout(dir, name, index); err != nil {
		return err
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	err = pack(file, dir)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeLayout writes an image layout with one named index.
func writeLayout(dir, name string, index v1.ImageIndex) error {
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return p.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name,                        // podman, skopeo
		"io.containerd.image.name":          "docker.io/library/" + name, // containerd, Docker
	}))
}

// pack writes the files of a directory, in the order of their names.
func pack(to io.Writer, dir string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		header := tar.Header{Name: relative, Mode: 0o644, ModTime: time.Unix(1, 0), Typeflag: tar.TypeReg}
		if entry.IsDir() {
			header.Name, header.Mode, header.Typeflag = relative+"/", 0o755, tar.TypeDir
			return w.WriteHeader(&header)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		header.Size = int64(len(content))
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
