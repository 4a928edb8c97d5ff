package document

import (
	"reflect"
	"slices"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	for _, tt := range []struct {
		in       string
		args     []string
		unquoted string
		err      string
	}{
		{in: "/bin/echo one  two\tthree\n", args: []string{"/bin/echo", "one", "two", "three"}},
		{in: `a 'b  c'd "e 'f'" '' ""`, args: []string{"a", "b  cd", "e 'f'", "", ""}},
		{in: `a\ b \" \\ "\"\\\n\a" '\'`, args: []string{"a b", `"`, `\`, `"\\n\a`, `\`}},
		{in: "a b\\\nc \"d\\\ne\" \\\n", args: []string{"a", "bc", "de"}},
		{in: `${X:-a b}c "${Y}" '${Z}' \${Z} "\${Z}"`,
			args: []string{"${X:-a b}c", "${Y}", "$${Z}", "$${Z}", "$${Z}"}},
		{in: `$$ '$$' $`, args: []string{"$$", "$$$$", "$$"}},
		{in: `$'{X}'`, args: []string{"$${X}"}},
		{in: "a | b", args: []string{"a", "|", "b"}, unquoted: "|"},
		{in: "a $HOME/x $(b)", args: []string{"a", "$$HOME/x", "$$(b)"}, unquoted: "$HOME"},
		{in: "a $HOME $B\n$C", args: []string{"a", "$HOME", "$B", "$C"}},
		{in: "a '$B' $B'' ''$B $1 $", args: []string{"a", "$$B", "$$B", "$$B", "$$1", "$$"}, unquoted: "$B"},
		{in: "a ~/x # c", args: []string{"a", "~/x", "#", "c"}, unquoted: "~"},
		{in: "a b#c d~ '|' \"*\" \\;", args: []string{"a", "b#c", "d~", "|", "*", ";"}},
		{in: "a=b", args: []string{"a=b"}},
		{in: " \n", args: nil},
		{in: "a 'b", err: "the single quote at byte 3 is not closed"},
		{in: `a "b\"`, err: "the double quote at byte 3 is not closed"},
		{in: `a \`, err: "nothing follows the backslash at the end"},
	} {
		args, unquoted, err := SplitCommand(tt.in)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("SplitCommand(%q) gives error %v, want %s", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(args, tt.args) || unquoted != tt.unquoted {
			t.Errorf("SplitCommand(%q) = %q, %q, %v, want %q, %q",
				tt.in, args, unquoted, err, tt.args, tt.unquoted)
		}
	}
}

func TestSplitWords(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" \t", nil},
		{"-u bind", []string{"-u", "bind"}},
		{`$X '$X' "$X" ${X} \$X $$`, []string{"$X", "$X", "$X", "${X}", "$X", "$$"}},
		{`-o "a b" '' a\ b *`, []string{"-o", "a b", "", "a b", "*"}},
	} {
		if got, err := SplitWords(tt.in); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("SplitWords(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	if got, err := SplitWords("it's"); err == nil {
		t.Errorf("a quote that is not closed gives %q", got)
	}
}
