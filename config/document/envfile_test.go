package document

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEnvFile: values are parsed as systemd does it. Source: man 5 systemd.exec.
func TestEnvFile(t *testing.T) {
	tests := []struct{ name, text, want string }{ // want: the variables by name, separated by |
		{"a line", "A=1", "A=1"},
		{"an empty value is empty", "A=\nB=  \nC=''\nD=\"\"\n", "A=|B=|C=|D="},
		{"the later one counts", "A=1\nA=2\n", "A=2"},
		{"skipped lines", "\ufeff# c\n\n ; c\n\t# c \\\nA=1\n", "A=1"},
		{"ends of lines", "A=1\r\n\r\nB='2'\r\nC=\"3\"\r\n# c\r\nD=4", "A=1|B=2|C=3|D=4"},
		{"blanks", "  A = two  words \t\nB\t=\tx", "A=two  words|B=x"},
		{"export", "export A=1\nexport\tB = 2\nexport=3\nexport = 4", "A=1|B=2|export=4"},
		{"the first =", "A==x=", "A==x="},
		{"what is literal outside quotes", "A=a # b;c\nB=it's \"so\"\nC=$HOME/`x`", "A=a # b;c|B=it's \"so\"|C=$HOME/`x`"},
		{"a backslash outside quotes", `A=a\ b\\c\"d\n`, `A=a b\c"dn`},
		{"blanks kept by a backslash", "A=a\\ \\  \nB=\\ b", "A=a  |B= b"},
		{"lines joined", "A=a\\\n  b\\\r\nc\nB=1", "A=a  bc|B=1"},
		{"a backslash at the end", `A=a\`, "A=a"},
		{"single quotes", `A=' a "$x" \n # '`, `A= a "$x" \n # `},
		{"double quotes", `A=" a '\"\\\$\` + "`" + `\n\' # "`, "A= a '\"\\$`\\n\\' # "},
		{"several lines", "A='a\nB=b'\nC=\"a\n\\\nb\n\"\nD=d", "A=a\nB=b|C=a\nb\n|D=d"},
		{"quotes that follow quotes", `A='it'"'"'s'x\y`, "A=it'sxy"},
		{"a comment after quotes", "A='a' # it's\nB=\"b\"# c\nC=c", "A=a|B=b# c|C=c"},
		{"a password", `P="pa\$\$w0rd#1;%"` + "\n" + `Q='pa$$w0rd'`, "P=pa$$w0rd#1;%|Q=pa$$w0rd"},
		{"as Debian has it", "# Options to pass to named\nOPTIONS=\"-u bind\"\n\nDAEMON_OPTS=\nULIMIT=65536\n", "DAEMON_OPTS=|OPTIONS=-u bind|ULIMIT=65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := map[string]string{}
			for variable := range strings.SplitSeq(tt.want, "|") {
				name, value, _ := strings.Cut(variable, "=")
				want[name] = value
			}
			got, errs := parseEnvFile("web.env", tt.text)
			if len(errs) > 0 || !maps.Equal(got, want) {
				t.Errorf("%q gives %q, %v, want %q", tt.text, got, errs, want)
			}
		})
	}
}

func TestEnvFileMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no =", "A=1\n  B c\n", `2:3: "B c" has no "=": write KEY=VALUE, and # before a comment`},
		{"no name", "=x", "1:1: a variable needs a name: write KEY=VALUE"},
		{"no name after export", "export '=x", `1:8: "'" is not the name of a variable: use letters, digits and _`},
		{"a name of two words", "\tE F = 1", `1:2: "E F" is not the name of a variable: use letters, digits and _`},
		{"a blank that is none of ASCII", "A\u00a0=1", `1:1: "A\u00a0" is not the name of a variable: use letters, digits and _`},
		{"double quotes that are open", "A=1\nC = \"x y \nB=2", `2:5: the quote before "x y" is not closed: close it, or put \ before it`},
		{"single quotes that are open", "C='", `1:3: the quote before "" is not closed: close it, or put \ before it`},
		{"a word after quotes", "D='x' y", `1:7: "y" follows the closing quote: put all of the value in quotes`},
		{"quotes after quotes", "D='a\nb' 'y'", `2:4: "'y'" follows the closing quote: put all of the value in quotes`},
		{"a NUL byte", "G=a\x00b", "1:1: the value of G contains a NUL byte"},
		{"each of them", "B\nC='x\nA=1\nD\n", `1:1: "B" has no "=": write KEY=VALUE, and # before a comment
web.env:2:3: the quote before "x" is not closed: close it, or put \ before it
web.env:4:1: "D" has no "=": write KEY=VALUE, and # before a comment`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := parseEnvFile("web.env", tt.text)
			if got, want := errs.Error(), "web.env:"+tt.want; got != want {
				t.Errorf("%q gives\n%s\nwant\n%s", tt.text, got, want)
			}
		})
	}
}

// TestReadEnvDirectory: each file is a variable, and what can't be one is a mistake.
func TestReadEnvDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	value := "it's \"\\ $X #\nthe second line\n"
	write("PASSWORD", value+"\n")
	write("EMPTY", "")
	write(".hidden", "no = variable")
	if err := os.Symlink("PASSWORD", filepath.Join(dir, "LINK")); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEnvFile(dir)
	if want := map[string]string{"PASSWORD": value, "EMPTY": "", "LINK": value}; err != nil || !maps.Equal(got, want) {
		t.Errorf("ReadEnvFile = %q, %v, want %q", got, err, want)
	}
	for name, text := range map[string]string{"a-b": "", "1X": "", "NUL": "a\x00b"} {
		write(name, text)
		if _, err := ReadEnvFile(dir); err == nil || !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("a file %s gives error %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "SUB"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEnvFile(dir); err == nil || !strings.Contains(err.Error(), "SUB") {
		t.Errorf("a directory in it gives error %v", err)
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.env")
	if err := os.WriteFile(path, []byte("A='1\n'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEnvFile(path); err != nil || got["A"] != "1\n" {
		t.Errorf("ReadEnvFile = %q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEnvFile(path); err == nil || !strings.HasPrefix(err.Error(), path+`:1:1: "A" has no`) {
		t.Errorf("a file with a mistake gives error %v", err)
	}
	_, err := ReadEnvFile(path + "x")
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), ": read env file: no such file or directory") {
		t.Errorf("a missing file gives error %v", err)
	}
}
