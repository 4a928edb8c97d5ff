package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestMain lets the test binary be the program, as compare starts servers and clients.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == serveCommand || os.Args[1] == "-way") {
		if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with -race each of them would end a second late
	os.Exit(m.Run())
}

func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	words, page := filepath.Join(dir, "words.txt"), filepath.Join(dir, "loops.md")
	for path, text := range map[string]string{
		words: "so 10ms\nit 20ms\ngoes 5ms\nso 0s\n",
		page:  "<!-- topwords:begin -->\n<!-- topwords:end -->\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	args := []string{"--compare", "--words", words, "--counts", "10,50,1000000000", "--update", page}
	if err := run(args, nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 10 | 0.", "| 50 | 0.", "1000000000 connections need 1000000032 descriptors, and the limit of this process is "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), out.String()) {
		t.Errorf("the page has\n%s, want it to contain\n%s", text, &out)
	}

	out.Reset()
	if err := run([]string{"-n", "7", "--words", words, "-way", "threads"}, nil, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "28 words from 7 connections in ") || !strings.Contains(out.String(), "       14 so\n") {
		t.Errorf("printed %q", &out)
	}
}

// onEachClient runs a test on both clients.
func onEachClient(t *testing.T, test func(t *testing.T, count func(netip.AddrPort, int) (*tally, error))) {
	for name, count := range ways {
		t.Run(name, func(t *testing.T) {
			test(t, count)
		})
	}
}

// listener returns the address of a server that serves each connection with f.
func listener(t *testing.T, f func(*net.TCPConn)) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f(conn.(*net.TCPConn))
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// TestPieces checks lines that arrive in pieces, or several at once.
func TestPieces(t *testing.T) {
	server := listener(t, func(conn *net.TCPConn) {
		defer conn.Close()
		for _, piece := range []string{"on", "e 1ms\ntwo 2ms\nth", "ree 3ms", "\n"} {
			_, _ = io.WriteString(conn, piece)
		}
	})
	onEachClient(t, func(t *testing.T, count func(netip.AddrPort, int) (*tally, error)) {
		got, err := count(server, 20)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"one": 20, "two": 20, "three": 20}; !reflect.DeepEqual(got.counts, want) || got.words != 60 {
			t.Errorf("counted %d words: %v, want 60: %v", got.words, got.counts, want)
		}
	})
}

// TestFailure checks servers that reset one connection and let the others hang, that send too long
// a line, and that are not there.
func TestFailure(t *testing.T) {
	first := make(chan bool, 1000)
	servers := map[string]netip.AddrPort{
		"connection reset by peer": listener(t, func(conn *net.TCPConn) {
			first <- true
			_, _ = io.WriteString(conn, "word 1ms\n")
			if len(first)%5 == 0 {
				_ = conn.SetLinger(0)
				conn.Close()
			}
		}),
		"buffer full": listener(t, func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, strings.Repeat("x", 1000))
		}),
		"connection refused": netip.MustParseAddrPort("127.0.0.1:1"),
	}
	onEachClient(t, func(t *testing.T, count func(netip.AddrPort, int) (*tally, error)) {
		for want, server := range servers {
			if _, err := count(server, 10); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the client returns %v, want %s", err, want)
			}
		}
	})
}

func TestTop(t *testing.T) {
	c := newTally()
	for i := range 12 {
		for range 12 - i {
			c.add(fmt.Appendf(nil, "word%d", i))
		}
	}
	for range 20 {
		c.add([]byte("word11"))
	}
	want := []entry{{"word11", 21}}
	for i := range 9 {
		want = append(want, entry{fmt.Sprint("word", i), 12 - i})
	}
	if !reflect.DeepEqual(c.top, want) {
		t.Errorf("top is %v, want %v", c.top, want)
	}
}

func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.txt")
	if err := os.WriteFile(bad, []byte("word 1ms\nword one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-way sideways":               "usage:",
		"-n 0":                        "usage:",
		"-words /no/such":             "name another file by -words",
		"-words " + bad:               bad + ":2: want a word and a pause",
		"-words words.txt -n 9000000": "9000000 connections need 9000032 descriptors",
		"-words words.txt --compare --counts 1,x": `"x" is not a number of connections`,
		"-connect 127.0.0.1:1 -n 1":               "connection refused",
	} {
		if err := run(strings.Fields(args), nil, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%q) = %v, want %s", args, err, want)
		}
	}
}
