package listen

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

func absolute(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/etc/superd", p)
}

func TestParse(t *testing.T) {
	for s, want := range map[string]Address{
		"0.0.0.0:80":                {Network: TCP4, Address: "0.0.0.0:80"},
		"[::]:80":                   {Network: TCP6, Address: "[::]:80"},
		"[::0]:080":                 {Network: TCP6, Address: "[::]:80"},
		":80":                       {Network: TCP, Address: ":80"},
		":0443":                     {Network: TCP, Address: ":443"},
		"tcp::80":                   {Network: TCP, Address: ":80"},
		"tcp:127.0.0.1:80":          {Network: TCP4, Address: "127.0.0.1:80"},
		"[fe80::1%eth0]:80":         {Network: TCP6, Address: "[fe80::1%eth0]:80"},
		"udp:0.0.0.0:53":            {Network: UDP4, Address: "0.0.0.0:53"},
		"udp::53":                   {Network: UDP, Address: ":53"},
		"udp:[ff02::fb]:5353":       {Network: UDP6, Address: "[ff02::fb]:5353"},
		"unix:/run/../run/web.sock": {Network: Unix, Address: "/run/web.sock"},
		"unix:web.sock":             {Network: Unix, Address: "/etc/superd/web.sock"},
		"unix:@web":                 {Network: Unix, Address: "@web"},
		"unix:@a/../b/":             {Network: Unix, Address: "@a/../b/"},
		"unixgram:/dev/log":         {Network: Unixgram, Address: "/dev/log"},
		"fifo:/run/web.fifo":        {Network: FIFO, Address: "/run/web.fifo"},
	} {
		got, err := Parse(s, absolute)
		if got != want || err != nil {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", s, got, err, want)
		}
		if again, err := Parse(got.String(), absolute); again != got || err != nil {
			t.Errorf("Parse(%q), from String = %+v, %v, want %+v", got.String(), again, err, got)
		}
	}
}

var proposed = regexp.MustCompile(`write ("[^"]+")(?: or ("[^"]+"))?`)

// TestParseRefuses: what is refused has a cause, and an address that is proposed is accepted.
func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 108)
	for s, want := range map[string]string{
		"":                      `is empty: write an address such as ":80" or "unix:/run/web.sock"`,
		"80":                    `"80" has no address: write ":80" for all`,
		"tcp:80":                `"tcp:80" has no address: write ":80" for all`,
		"udp:53":                `"udp:53" has no address: write "udp::53" for all`,
		"localhost:80":          `"localhost:80" has a name, and what it stands for may change: write "127.0.0.1:80" or "[::1]:80"`,
		"udp:localhost:53":      `"udp:localhost:53" has a name, and what it stands for may change: write "udp:127.0.0.1:53" or "udp:[::1]:53"`,
		"example.org:80":        `"example.org:80" has a name, and what it stands for may change: write its address, as in "192.0.2.1:80"`,
		"*:80":                  `"*:80": write ":80" for all addresses`,
		"::1:80":                `"::1:80" needs brackets: write "[::1]:80"`,
		"::1":                   `"::1" has no port: write an address such as "127.0.0.1:80" or ":80"`,
		"127.0.0.1":             `"127.0.0.1" has no port: write an address such as "127.0.0.1:80" or ":80"`,
		"[::ffff:127.0.0.1]:80": `"[::ffff:127.0.0.1]:80" is an IPv4 address: write "127.0.0.1:80"`,
		"224.0.0.1:80":          `"224.0.0.1:80" is a multicast address, which TCP does not have: write another one`,
		":0":                    `":0" has the port "0", which must be a number from 1 to 65535`,
		":http":                 `":http" has the port "http", which must be a number from 1 to 65535`,
		":65536":                `":65536" has the port "65536", which must be a number from 1 to 65535`,
		":+80":                  `":+80" has the port "+80", which must be a number from 1 to 65535`,
		"/run/web.sock":         `"/run/web.sock" does not say what to open: write "unix:/run/web.sock", or "fifo:…" for a FIFO`,
		"@web":                  `"@web" does not say what to open: write "unix:@web", or "fifo:…" for a FIFO`,
		"unx:/run/web.sock":     `"unx:/run/web.sock" begins with "unx:", which is no kind of address: did you mean "unix"?`,
		"tpc:0.0.0.0:21":        `"tpc:0.0.0.0:21" begins with "tpc:", which is no kind of address: did you mean "tcp"?`,
		"vsock:2:80":            `"vsock:2:80" begins with "vsock:", which is no kind of address: it can be tcp, udp, unix, unixgram or fifo`,
		"unix:":                 `"unix:" names no file: write "unix:/run/web"`,
		"unix:@":                `"unix:@" names no file: write "unix:/run/web"`,
		"unix:/run/":            `"unix:/run/" names no file: write "unix:/run/web"`,
		"fifo:@web":             `"fifo:@web" has an abstract name, which only Unix sockets have: write a path`,
		"unix:@" + long:         "has 108 bytes, and the kernel allows 107: choose a shorter path",
		"unix:/" + long[1:]:     "has 108 bytes, and the kernel allows 107: choose a shorter path",
	} {
		got, err := Parse(s, absolute)
		if err == nil || err.Error() != want && !(len(s) > 100 && strings.HasSuffix(err.Error(), want)) {
			t.Errorf("Parse(%q) = %+v, %v\nwant the error %s", s, got, err, want)
			continue
		}
		for _, found := range proposed.FindAllStringSubmatch(err.Error(), -1) {
			for _, quoted := range found[1:] {
				if text := strings.Trim(quoted, `"`); text != "" {
					if _, err := Parse(text, absolute); err != nil {
						t.Errorf("Parse(%q) proposes %q: %v", s, text, err)
					}
				}
			}
		}
	}
	if _, err := Parse("unix:@"+long[1:], absolute); err != nil {
		t.Errorf("a name of 107 bytes: %v", err)
	}
}

func TestExcludes(t *testing.T) {
	parse := func(s string) Address {
		text, option, _ := strings.Cut(s, " ")
		a, err := Parse(text, absolute)
		if err != nil {
			t.Fatal(err)
		}
		if a.ReusePort = option == "shared"; !a.ReusePort {
			a.Device = option
		}
		return a
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{":80", ":80", true},
		{":80", ":81", false},
		{":80", "0.0.0.0:80", true},
		{":80", "[::1]:80", true},
		{":80", "udp::80", false},
		{"0.0.0.0:80", "[::]:80", false},
		{"0.0.0.0:80", "127.0.0.1:80", true},
		{"[::]:80", "[::1]:80", true},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"[fe80::1%a]:80", "[fe80::1%b]:80", false},
		{"udp:0.0.0.0:53", "udp:127.0.0.1:53", true},
		{":80 shared", ":80 shared", true}, // the same socket twice
		{":80 shared", "127.0.0.1:80 shared", false},
		{":80 shared", "127.0.0.1:80", true},
		{":80 eth0", ":80 eth1", false},
		{":80 eth0", ":80 eth0", true},
		{":80 eth0", ":80", true},
		{"unix:/run/a", "unix:/run/a", true},
		{"unix:/run/a", "unixgram:/run/a", true},
		{"unix:/run/a", "fifo:/run/../run/a", true},
		{"unix:/run/a", "unix:/run/b", false},
		{"unix:@a", "unix:@a", true},
		{"unix:@a", "unixgram:@a", false},
		{"unix:@a", ":80", false},
		{"unix:/a", ":80", false},
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := parse(pair[0]).Excludes(parse(pair[1])); got != tt.want {
				t.Errorf("%q excludes %q = %v, want %v", pair[0], pair[1], got, tt.want)
			}
		}
	}
}
