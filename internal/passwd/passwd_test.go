package passwd

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
# a comment:x:1:1::/:/bin/sh

+nis:x:2:2::/:/bin/sh
-nis:x:2:2::/:/bin/sh
+
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
short:x:40:40:no home
odd:x:4x:40::/:/bin/sh
odd:x:-1:40::/:/bin/sh
minus:x:4294967295:40::/:/bin/sh
:x:41:41::/:/bin/sh
bare:x:50:51:::
twin:x:33:34::/twin:/bin/false
2000:x:60:61::/named-like-a-number:/bin/sh
other:x:2000:62::/other:/bin/sh
müller:x:70:70::/home/müller:/bin/sh
last:x:80:80::/last:/bin/sh`

const groups = `root:x:0:
www-data:x:33:
adm:x:4:www-data,other
twice:x:4:www-data
broken:x:five:www-data
three:x:6
mail:x:8: www-data
# cut:x:9:www-data
own:x:33:www-data
staff:x:50:last,www-data
3000:x:51:
`

func files() Files {
	return Files{UserFile: "passwd", GroupFile: "group", Read: func(path string) ([]byte, error) {
		text, ok := map[string]string{"passwd": passwd, "group": groups}[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}}
}

func TestUser(t *testing.T) {
	tests := []struct {
		rule, name string
		want       User
	}{
		{"by name", "www-data", User{"www-data", 33, 33, "/var/www", "/usr/sbin/nologin"}},
		{"by number", "0", User{"root", 0, 0, "/root", "/bin/bash"}},
		{"the first with the number", "33", User{"www-data", 33, 33, "/var/www", "/usr/sbin/nologin"}},
		{"a name comes before a number", "2000", User{"2000", 60, 61, "/named-like-a-number", "/bin/sh"}},
		{"empty fields have defaults", "bare", User{"bare", 50, 51, "/", "/bin/sh"}},
		{"letters of any language", "müller", User{"müller", 70, 70, "/home/müller", "/bin/sh"}},
		{"a last line without its newline", "last", User{"last", 80, 80, "/last", "/bin/sh"}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if got, err := files().User(tt.name); got != tt.want || err != nil {
				t.Errorf("User(%q) = %+v, %v, want %+v", tt.name, got, err, tt.want)
			}
		})
	}
	for _, name := range []string{"", "nobody", "short", "odd", "minus", "4294967295", "+nis", "nis", "# a comment", "-1", "1.5"} {
		_, err := files().User(name)
		unknown, ok := errors.AsType[*UnknownError](err)
		if !ok || unknown.Kind != "user" || unknown.Name != name {
			t.Errorf("User(%q) fails with %v, want an UnknownError", name, err)
		} else if !slices.Contains(unknown.Candidates, "www-data") {
			t.Errorf("User(%q) knows of %v only", name, unknown.Candidates)
		}
	}
}

func TestGroup(t *testing.T) {
	for name, want := range map[string]uint32{"root": 0, "www-data": 33, "adm": 4, "3000": 51, "1234": 1234, "0": 0} {
		if got, err := files().Group(name); got != want || err != nil {
			t.Errorf("Group(%q) = %d, %v, want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "broken", "three", "cut", "4294967295", "-1"} {
		if _, err := files().Group(name); !isUnknown(err, "group") {
			t.Errorf("Group(%q) fails with %v, want an UnknownError", name, err)
		}
	}
}

func isUnknown(err error, kind string) bool {
	unknown, ok := errors.AsType[*UnknownError](err)
	return ok && unknown.Kind == kind && strings.Contains(err.Error(), "there is no "+kind)
}

func TestGroups(t *testing.T) {
	for name, want := range map[string][]uint32{
		"www-data": {33, 4, 50}, // each once, with its own first; a blank belongs to the name
		"root":     {0},
		"last":     {80, 50},
	} {
		user, err := files().User(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := files().Groups(user); !slices.Equal(got, want) || err != nil {
			t.Errorf("Groups(%s) = %v, %v, want %v", name, got, err, want)
		}
	}
}

func TestFilesThatAreMissing(t *testing.T) {
	f := files()
	f.UserFile, f.GroupFile = "nowhere", "nowhere"
	_, userErr := f.User("root")
	_, groupErr := f.Group("root")
	_, groupsErr := f.Groups(User{})
	for _, err := range []error{userErr, groupErr, groupsErr} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("error = %v, want one that names the file", err)
		}
	}
}

// FuzzUser: whatever the files contain, the result is a part of them.
func FuzzUser(f *testing.F) {
	f.Add(passwd, "33")
	f.Add("a:b:1:2:c:d:e\n", "a")
	f.Add(":::::::\n", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		db := Files{Read: func(string) ([]byte, error) { return []byte(text), nil }}
		user, err := db.User(name)
		if err == nil && (user.Name == "" || user.Home == "" || !strings.Contains(text, user.Name+":")) {
			t.Errorf("User(%q) of %q = %+v", name, text, user)
		}
		_, _ = db.Group(name)
		if gids, err := db.Groups(user); err != nil || len(gids) == 0 || gids[0] != user.GID {
			t.Errorf("Groups(%+v) of %q = %v, %v", user, text, gids, err)
		}
	})
}
