package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"superd/config/codec"
	"superd/config/document"
)

// Web holds the keys of the table [web], of which `superd web` takes what its flags do not say.
// superd itself only checks them.
type Web struct {
	Listen          string // HOST:PORT; the host may be empty
	TokenFile       string // absolute; "": the usual one
	ViewerTokenFile string // absolute; "": none
	TLSCert, TLSKey string // absolute; both or none
	Hosts           []string
	ReadOnly        bool
}

const defaultWebListen = "127.0.0.1:9001"

func webKeys() []key {
	return []key{
		bind("web", "listen", webAddress, func(d *builder) *string { return &d.web.Listen },
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
		bind("web", "hosts", codec.List("array of strings", hostName),
			func(d *builder) *[]string { return &d.web.Hosts },
			"Names, without a port, by which browsers may call the server, beside `localhost` and the "+
				"address that they connect to."),
		bind("web", "read_only", codec.Boolean, func(d *builder) *bool { return &d.web.ReadOnly },
			"Whether nobody may change anything."),
	}
}

// webAddress reads HOST:PORT, where HOST may be empty.
var webAddress = codec.Text("host:port", "a string", func(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("must be host:port, got %s: write %q", document.Quote(s), defaultWebListen)
	}
	return s, nil
}, codec.QuoteSet)

// hostName reads the name of a host.
var hostName = codec.Text("host name", "a string", func(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, ":/*@ \t\r\n") {
		return "", fmt.Errorf(`must be the name of a host, got %s: write "superd.example.org"`, document.Quote(s))
	}
	return s, nil
}, codec.QuoteSet)

// checkWeb reports what `superd web` would refuse.
func (l *loader) checkWeb() {
	web := l.root.web
	if (web.TLSCert == "") != (web.TLSKey == "") {
		l.root.mistakeAt("tls_cert", "tls_key").Fail("tls_cert and tls_key need each other: add the other one")
	}
	host, _, _ := net.SplitHostPort(web.Listen)
	if address, err := netip.ParseAddr(host); err == nil && !address.Unmap().IsLoopback() && web.TLSCert == "" {
		l.root.mistakeAt("listen").Fail(
			"%s is beyond the loopback interface, where others could read the token on the way: add tls_cert and tls_key, or write %q",
			host, defaultWebListen)
	}
}

// LoadWeb returns the tables [web] and [superd] of the file at path, without looking at the
// programs and included files: who runs `superd web` need not be able to read these. The error is an
// [Errors].
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
