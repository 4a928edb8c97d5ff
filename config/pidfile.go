package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config/document"
	"superd/config/environ"
)

// PIDFilePath returns the path of the program's pid file; "" for none. run has the variables of the
// run.
func (p *Program) PIDFilePath(run environ.Variables) (string, error) {
	expanded, unset, err := document.Expand(p.PIDFile, run.Get)
	if err == nil && len(unset) > 0 {
		err = errors.New(environ.UnsetMessage(unset, "environment or env_file"))
	}
	if err != nil {
		return "", fmt.Errorf("expand pid_file: %w", err)
	}
	return expanded, nil
}

// checkForking checks what concerns programs of type forking.
func (d *builder) checkForking() {
	if d.Type != TypeForking {
		if d.PIDFile != "" {
			if d.isSet("pid_file") {
				d.set["pid_file"].FailKey(`has no meaning without type = "forking": add that, or remove it`)
			}
			d.PIDFile = ""
		}
		return
	}
	if d.PIDFile != "" && d.Replicas > 1 && !namesReplica(d.PIDFile) {
		d.mistakeAt("pid_file", "replicas").Fail("%q would be the pid file of %d instances: add ${SUPERD_REPLICA} to it", d.PIDFile, d.Replicas)
	}
	if r := d.Ready; r == nil || !r.Notify && r.FD == 0 {
		return
	}
	// Readiness checks in [defaults] are meant for other services
	if d.Ready = nil; d.isSet("ready.notify", "ready.fd") {
		d.mistakeAt("ready.notify", "ready.fd").FailKey(`is for programs that stay in the foreground: ` +
			`with type = "forking" the end of the command reports readiness: remove it, or use another readiness check`)
	}
}

// checkPIDFilePlace refuses a pid file that superd does not see, as the program has its own view of
// the path.
func (d *builder) checkPIDFilePlace() {
	box := d.Sandbox
	if d.PIDFile == "" || box == nil {
		return
	}
	clean := path.Clean(d.PIDFile)
	below := func(dir string) bool {
		dir = path.Clean(dir)
		return dir == "/" || strings.HasPrefix(clean, dir+"/")
	}
	switch root := box.RootDirectory; {
	case root != "" && !below(root):
		d.mistakeAt("pid_file", "sandbox.root_directory").Fail("%q is not in sandbox.root_directory, and superd reads the file from outside: write %s",
			d.PIDFile, path.Join(root, d.PIDFile))
	case root == "" && box.PrivateTmp && (below("/tmp") || below("/var/tmp")):
		d.mistakeAt("pid_file", "sandbox.private_tmp").Fail("%q is in the program's own directory with sandbox.private_tmp, where superd does not look: let the program write it to /run/%s, or set private_tmp = false",
			d.PIDFile, path.Base(d.PIDFile))
	}
}

// checkPIDFiles refuses a pid file that instances of two programs would write.
func (l *loader) checkPIDFiles() {
	users := map[string]*builder{}
	for _, d := range l.programs {
		if d.PIDFile == "" {
			continue
		}
		for _, instance := range d.Instances() {
			_, replica, _ := strings.Cut(instance, "@")
			var run environ.Variables
			run.Set("SUPERD_INSTANCE", instance)
			run.Set("SUPERD_NAME", d.Name)
			run.Set("SUPERD_REPLICA", cmp.Or(replica, "1"))
			file, err := d.PIDFilePath(run)
			if err != nil {
				break // it has a variable that is known at the start only
			}
			file = path.Clean(file)
			if first, taken := users[file]; taken && first != d {
				d.mistakeAt("pid_file").Fail("%q is the pid file of %q (%s) and of %q: give each its own",
					file, first.Name, first.mistakeAt("pid_file").Position(), d.Name)
				break
			}
			users[file] = d
		}
	}
}

// namesReplica reports whether a template is another path for each replica.
func namesReplica(template string) bool {
	all, _ := document.References(template)
	return slices.Contains(all, "SUPERD_INSTANCE") || slices.Contains(all, "SUPERD_REPLICA")
}
