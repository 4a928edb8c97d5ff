package config

import "superd/config/document"

// Archive returns the sources of c as one JSON document. [Restore] makes c again from it, whatever
// has changed in the files since. Like the files, it may hold secrets.
func (c *Config) Archive() []byte { return c.sources.Encode() }

// Restore returns the configuration that an archive was made from. Warnings describe the machine as
// it is now.
func Restore(archive []byte) (*Config, error) { return restore(archive, thisHost()) }

func restore(archive []byte, h host) (*Config, error) {
	a, err := document.DecodeArchive(archive)
	if err != nil {
		return nil, err
	}
	h.files = a.Files()
	return load(string(a.Path), h)
}

// IsFrom reports whether c was loaded from path, now or by the superd that made its archive. The
// two may resolve relative paths against different directories.
func (c *Config) IsFrom(path string) bool { return c.sources.IsFrom(path) }
