// Package image makes the container image of superd: an index with one image for each architecture.
//
// An image has one layer, made of nothing but what [New] is given: superd's binaries, the
// certificates by which it trusts a webhook, and the directories and users that programs expect.
// There is no shell and no other program in it. What is in an image depends on its [Options] alone.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Options say what an image is made of.
type Options struct {
	Version, Commit string
	Time            time.Time // of all files, and of the image
	Configuration   string    // /etc/superd/superd.toml
	Licence         string
	// Directory with superd and superd-ui, by architecture (GOARCH)
	Binaries map[string]string
}

// New returns the index with the images of all architectures.
func New(o Options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures(o.Binaries) {
		platform := v1.Platform{OS: "linux", Architecture: arch}
		image, err := forPlatform(&o, platform)
		if err != nil {
			return nil, fmt.Errorf("make image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

func architectures(binaries map[string]string) []string {
	var all []string
	for arch := range binaries {
		all = append(all, arch)
	}
	slices.Sort(all)
	return all
}

func forPlatform(o *Options, platform v1.Platform) (v1.Image, error) {
	files, err := rootOf(o, o.Binaries[platform.Architecture])
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: o.Time}, CreatedBy: "superd " + o.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: o.Time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/superd"},
		Cmd:        []string{"run"},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"SUPERD_RUNTIME_DIR=/run/superd", // whatever the user
		},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "superd",
			"org.opencontainers.image.description": "A process supervisor",
			"org.opencontainers.image.version":     o.Version,
			"org.opencontainers.image.revision":    o.Commit,
			"org.opencontainers.image.licenses":    "MIT",
		},
	}
	return mutate.ConfigFile(image, config)
}

// An entry is one file or directory of the image.
type entry struct {
	path string // without the first slash; a directory ends with one
	mode int64
	text []byte
}

// rootOf returns the files of an image as a tar archive.
func rootOf(o *Options, binaries string) ([]byte, error) {
	all := []entry{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/superd/", 0o755, nil},
		{"etc/superd/conf.d/", 0o755, nil},
		{"etc/superd/superd.toml", 0o644, []byte(o.Configuration)},
		{"run/", 0o1777, nil}, // any user may run superd
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/bin/", 0o755, nil},
		{"usr/share/", 0o755, nil},
		{"usr/share/doc/", 0o755, nil},
		{"usr/share/doc/superd/", 0o755, nil},
		{"usr/share/doc/superd/LICENSE", 0o644, []byte(o.Licence)},
		{"var/", 0o755, nil},
		{"var/log/", 0o755, nil},
	}
	certificates, err := trusted()
	if err != nil {
		return nil, err
	}
	all = append(all, entry{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates})
	for _, name := range []string{"superd", "superd-ui"} {
		text, err := os.ReadFile(filepath.Join(binaries, name))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{"usr/bin/" + name, 0o755, text})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return pack(all, o.Time)
}

// trusted returns the certificates of Mozilla's root programme, as PEM.
func trusted() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		if root.Constraint != nil {
			continue // a file can't say until when it is trusted
		}
		fmt.Fprintf(&out, "# %s\n", certificate.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// pack returns a tar archive of the entries, which belong to root.
func pack(all []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.path, Mode: e.mode, Size: int64(len(e.text)), ModTime: at, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
