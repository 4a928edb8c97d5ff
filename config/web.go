package config

import (
	"superd/config/codec"
	"superd/config/document"
	"superd/config/pages"
)

func webKeys() []key {
	return []key{
		bind("web", "listen", pages.Address, func(d *builder) *string { return &d.web.Listen },
			"The address to listen on. Beyond the loopback interface only with `tls_cert`."),
		reading("see [tokens](web.md#tokens)", bind("web", "token_file", codec.FilePath,
			func(d *builder) *string { return &d.web.TokenFile },
			"The file of the token for operators. `superd web` makes it if it is missing.")),
		reading("none", bind("web", "viewer_token_file", codec.FilePath,
			func(d *builder) *string { return &d.web.ViewerTokenFile },
			"Likewise for viewers, who may change nothing.")),
		reading("none", bind("web", "tls_cert", codec.FilePath,
			func(d *builder) *string { return &d.web.TLSCert },
			"The file of the certificate, with those of intermediate authorities, in PEM. It is read "+
				"again when it changes.")),
		reading("none", bind("web", "tls_key", codec.FilePath,
			func(d *builder) *string { return &d.web.TLSKey },
			"The file of its key, in PEM.")),
		bind("web", "hosts", codec.List("array of strings", pages.HostName),
			func(d *builder) *[]string { return &d.web.Hosts },
			"Names, without a port, by which browsers may call the server, beside `localhost` and the "+
				"address that they connect to."),
		bind("web", "read_only", codec.Boolean, func(d *builder) *bool { return &d.web.ReadOnly },
			"Whether nobody may change anything."),
	}
}

// checkWeb reports what `superd web` would refuse.
func (l *loader) checkWeb() {
	if keys, err := l.root.web.Check(); err != nil {
		l.root.mistakeAt(keys...).Fail("%w", err)
	}
}

// LoadWeb returns the tables [web] and [superd] of the file at path, without looking at the
// programs and included files: who runs `superd web` need not be able to read these. The error is
// an [Errors].
func LoadWeb(path string) (*Config, error) { return loadWeb(path, thisHost()) }

func loadWeb(path string, h host) (*Config, error) {
	l := &loader{host: h, reader: document.NewReader(path, h.files), report: &codec.Report{}}
	main, mistake := l.reader.Open(path)
	if mistake != nil {
		return nil, Errors{mistake}
	}
	file := l.fileValue(main)
	l.root = builtin().child(file)
	for _, name := range file.Keys() {
		if name == "web" || name == "superd" {
			l.root.decode(file.Entry(name), name, "")
		}
	}
	l.checkWeb()
	if l.report.Fatal {
		return nil, l.report.Errors.Sorted(l.reader.Names())
	}
	return &Config{Path: path, Superd: l.root.superd, Web: l.root.web}, nil
}
