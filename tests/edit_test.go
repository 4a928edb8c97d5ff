package tests

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// editSite returns a site whose programs stand in two files, and a function that makes a script its
// editor.
func editSite(t *testing.T) (s *harness.Site, editor func(script string)) {
	t.Helper()
	s = harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	s.Mkdir("conf.d")
	s.Write("conf.d/db.toml", "[program.db]\ncommand = 'sleep infinity'\nstop_timeout = '5s'\n")
	s.Write("superd.toml", "include = ['conf.d/*.toml']\n"+s.Read("superd.toml"))
	s.Env = append(s.Env, "VISUAL="+s.Path("editor")+" -x")
	return s, func(script string) {
		s.Write("editor", "#!/bin/sh\n[ \"$1\" = -x ] || exit 9\nshift\n"+script+"\n")
		s.Chmod("editor", 0o755)
	}
}

// TestEdit: edit changes the file that defines a program, after a check, with its owner and mode,
// and reloads.
func TestEdit(t *testing.T) {
	t.Parallel()
	s, editor := editSite(t)
	s.Chmod("conf.d/db.toml", 0o640)
	if err := os.Chown(s.Path("conf.d/db.toml"), 1234, 1235); err != nil {
		t.Skip("needs root")
	}
	s.Start()
	db := s.WaitState("db", "running")
	editor(`sed -i s/5s/7s/ "$1"`)
	r := s.MustCtl("edit", "--reload", "db")
	if want := s.Path("conf.d/db.toml") + ": saved\n"; !strings.HasPrefix(r.Out, want) || !strings.Contains(r.Out, `stop_timeout = "7s"`) {
		t.Errorf("edit prints %q", r.Out)
	}
	if got := s.Read("conf.d/db.toml"); !strings.Contains(got, "7s") {
		t.Errorf("the file: %q", got)
	}
	if r := s.MustCtl("cat", "db"); !strings.Contains(r.Out, `stop_timeout = "7s"`) || s.Status("db").Pid != db.Pid {
		t.Errorf("not reloaded: %s", r.Out)
	}
	info, err := os.Stat(s.Path("conf.d/db.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 1234 || st.Gid != 1235 || info.Mode() != 0o640 {
		t.Errorf("the file is now %v of %d:%d", info.Mode(), st.Uid, st.Gid)
	}
	if left := s.Files("conf.d/*"); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
	// Without a terminal nothing is asked, and nothing reloaded
	r = s.MustCtl("edit")
	if r.Out != "nothing has changed\n" {
		t.Errorf("edit of the main file prints %q", r.Out)
	}
	editor(`echo "umask = '027'" >> "$1"`)
	if r = s.MustCtl("edit", "web"); !strings.HasSuffix(r.Out, "not reloaded: `superd ctl reload` does that\n") {
		t.Errorf("edit without a terminal prints %q", r.Out)
	}
	editor(`sed -i s/027/026/ "$1"`)
	if r = s.MustCtl("edit", "--no-reload", "web"); r.Out != s.Path("superd.toml")+": saved\n" {
		t.Errorf("edit --no-reload prints %q", r.Out)
	}
}

// TestEditRefused: a file with mistakes, one that has changed meanwhile, and one behind a hostile
// link stay as they are, and the text is kept.
func TestEditRefused(t *testing.T) {
	t.Parallel()
	s, editor := editSite(t)
	s.Start()
	s.WaitState("db", "running")
	refused := func(script, want string, args ...string) {
		t.Helper()
		editor(script)
		before := s.Read("conf.d/db.toml")
		r := s.Ctl(append([]string{"edit"}, args...)...)
		if r.Exit == 0 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("edit by %q: exit status %d, %q, want %q", script, r.Exit, r.ErrOut, want)
		}
		if _, draft, kept := strings.Cut(r.ErrOut, "your text is in "); kept {
			draft = strings.TrimSpace(draft)
			if _, err := os.Stat(draft); err != nil {
				t.Error(err)
			}
			os.RemoveAll(strings.TrimSuffix(draft, "/db.toml"))
		} else if strings.Contains(want, "mistakes") || strings.Contains(want, "status 4") {
			t.Errorf("the text is lost: %q", r.ErrOut)
		}
		if got := s.Read("conf.d/db.toml"); got != before && !strings.Contains(want, "meanwhile") {
			t.Errorf("edit by %q has changed the file: %q", script, got)
		}
	}
	refused(`echo "stop_signal = 'NO'" >> "$1"`, "conf.d/db.toml:4:15: program.db.stop_signal", "db")
	refused(`echo "stop_signal = 'NO'" >> "$1"`, "it has mistakes, and the file is as before", "db")
	refused(`exit 3`, "has failed: exit status 3: the file is as before", "db")
	refused(`echo "# mine" >> "$1"; exit 4`, "has failed: exit status 4: the file is as before", "db")
	refused(`echo "# mine" >> "$1"; echo "# other" >> `+s.Path("conf.d/db.toml"), "was changed meanwhile", "db")
	refused(`true`, `no program, instance or group is named "dbb"; did you mean "db"?`, "dbb")
	refused(`true`, "this host only", "--host", "a", "db")
	// A mistake of syntax elsewhere is not one of this edit; no text is left without a change
	s.Write("conf.d/other.toml", "broken =\n")
	editor(`echo "umask = '027'" >> "$1"`)
	if r := s.MustCtl("edit", "--no-reload", "-c", s.Path("superd.toml"), "db"); !strings.HasSuffix(r.Out, ": saved\n") {
		t.Errorf("edit beside a broken file prints %q", r.Out)
	}
	// A user's directory, and a link there
	s.Mkdir("user")
	if os.Chown(s.Path("user"), 1234, 1234) != nil {
		return // not root
	}
	s.Write("victim", "[program.db]\ncommand = 'true'\n")
	s.Link("user/db.toml", s.Path("victim"))
	if err := os.Lchown(s.Path("user/db.toml"), 1234, 1234); err != nil {
		t.Fatal(err)
	}
	s.Write("superd.toml", "include = ['user/*.toml']\n")
	refused(`echo "umask = '027'" >> "$1"`, "symbolic link", "-c", s.Path("superd.toml"), "--runtime-dir", s.Path("none"), "db")
	if got := s.Read("victim"); strings.Contains(got, "umask") {
		t.Errorf("written through the link: %q", got)
	}
}

// TestEditAgain: in a terminal, mistakes are shown and may be corrected, and the reload is asked
// for.
func TestEditAgain(t *testing.T) {
	t.Parallel()
	s, editor := editSite(t)
	s.Start()
	s.WaitState("db", "running")
	// A mistake at first; corrected the second time
	editor(`if grep -q NO "$1"; then sed -i s/NO/HUP/ "$1"; else echo "stop_signal = 'NO'" >> "$1"; fi`)
	terminal := harness.NewTerminal(t, 80, 24)
	cmd := terminal.Command(s, "ctl", "--runtime-dir", s.RuntimeDir, "edit", "db")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Screen.Wait(t, "Edit it again? [Y/n] ")
	terminal.Type("\r")
	terminal.Screen.Wait(t, "Reload now? [Y/n] ")
	terminal.Type("y\r")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, terminal.Screen)
	}
	for _, want := range []string{"program.db.stop_signal", `+ stop_signal = "SIGHUP"`} {
		if !strings.Contains(terminal.Screen.String(), want) {
			t.Errorf("the screen lacks %q:\n%s", want, terminal.Screen)
		}
	}
	if r := s.MustCtl("cat", "db"); !strings.Contains(r.Out, `stop_signal = "SIGHUP"`) {
		t.Errorf("not reloaded: %s", r.Out)
	}
}
