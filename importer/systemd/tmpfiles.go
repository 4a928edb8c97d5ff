package systemd

import (
	"path/filepath"
	"slices"
	"strings"

	"superd/importer/draft"
)

// temporary notes the directories in /run that the package of the unit has systemd make at boot:
// tmpfiles.d has a file of the unit's name, tmpfiles.d(5). superd makes none but those of the unit.
func (s *service) temporary() {
	name := strings.TrimSuffix(s.name, ".service") + ".conf"
	file := filepath.Join(filepath.Dir(s.path), "../../tmpfiles.d", name)
	text, err := s.system.ReadFile(file)
	if err != nil {
		return // there is none
	}
	own, _ := s.table.Get("runtime_directory").([]string)
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.ContainsRune("dDqQv", rune(fields[0][0])) {
			continue
		}
		path := filepath.Clean(fields[1])
		inRun, ok := strings.CutPrefix(strings.TrimPrefix(path, "/var"), "/run/")
		if !ok || slices.Contains(own, inRun) {
			continue
		}
		s.doc.Note(draft.Place{File: file, Line: i + 1}, "", "superd does not make %s, which systemd makes at boot: "+
			"have `systemd-tmpfiles --create %s` run before superd, or set runtime_directory", path, name)
	}
}
