// Command container writes the container image of superd, as an OCI archive:
//
//	container -o FILE -version VERSION -commit COMMIT amd64=DIR arm64=DIR
//
// Each directory has superd and superd-ui for that architecture. The time of all files is that of
// SOURCE_DATE_EPOCH, in seconds, so that two builds are byte-identical.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"superd/packaging/container/image"
)

func main() {
	var o image.Options
	out := flag.String("o", "", "`file` of the archive")
	source := flag.String("source", ".", "`directory` with superd.toml; LICENSE is two directories above it")
	flag.StringVar(&o.Version, "version", "", "`version` of superd, which is the name of the image, too")
	flag.StringVar(&o.Commit, "commit", "", "`commit` of superd")
	flag.Parse()
	if err := write(&o, *out, *source, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

func write(o *image.Options, out, source string, binaries []string) error {
	if out == "" || o.Version == "" || len(binaries) == 0 {
		return fmt.Errorf("read arguments: -o, -version and ARCH=DIR are needed")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	o.Time, o.Binaries = time.Unix(epoch, 0).UTC(), map[string]string{}
	for _, argument := range binaries {
		arch, dir, ok := strings.Cut(argument, "=")
		if !ok {
			return fmt.Errorf("read argument %q: want ARCH=DIR", argument)
		}
		o.Binaries[arch] = dir
	}
	for path, to := range map[string]*string{"superd.toml": &o.Configuration, "../../LICENSE": &o.Licence} {
		text, err := os.ReadFile(filepath.Join(source, path))
		if err != nil {
			return err
		}
		*to = string(text)
	}
	index, err := image.New(*o)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := image.WriteArchive(&archive, index, "superd:"+strings.ReplaceAll(o.Version, "+", "-"), o.Time); err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}
