package systemd

import (
	"strings"
	"time"

	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/mark"
)

// Whole writes the configuration and one unit, in which superd runs all programs. The unit has what
// packaging/superd.service has, which says why.
func Whole(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	logDir := c.Superd.LogDir
	if logDir == "" {
		logDir = "/var/log/" + o.Name
	}
	s, err := manifest.NewWhole(c, o, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	m, err := mark.NewWhole(Format, s, logDir)
	if err != nil {
		return nil, err
	}
	path := "/etc/superd/" + o.Name + ".toml"
	u := &unit{comments: append(s.Comments(), "The configuration is "+path+".")}
	u.set("Unit", "Description", "superd with the programs of %s", specifier(o.Name))
	u.set("Unit", "After", "network.target")
	u.set("Unit", "StartLimitIntervalSec", "0")
	set := func(key, value string) { u.set("Service", key, "%s", value) }
	superd := quote(specifier(o.Binary))
	set("Type", "notify")
	set("NotifyAccess", "main")
	set("ExecStart", superd+" run --no-keeper --config "+specifier(path))
	set("ExecReload", superd+" ctl --config "+specifier(path)+" --runtime-dir /run/"+specifier(o.Name)+" reload")
	set("Restart", "always")
	set("RestartSec", "1s")
	set("RestartPreventExitStatus", "2")
	set("WatchdogSec", "30s")
	set("TimeoutAbortSec", "10s")
	set("TimeoutStopSec", span(max(s.StopBudget(), leastStop)))
	set("KillMode", "process")
	set("RestartKillSignal", "SIGKILL")
	set("ExecStopPost", "-"+superd+" clean-cgroup --unit=%n")
	set("FileDescriptorStoreMax", "32768")
	set("OOMPolicy", "continue")
	set("RuntimeDirectory", specifier(o.Name))
	set("RuntimeDirectoryMode", "0711")
	set("RuntimeDirectoryPreserve", "yes")
	if name, ok := strings.CutPrefix(logDir, "/var/log/"); ok {
		set("LogsDirectory", specifier(name))
		set("LogsDirectoryMode", "0750")
	}
	set("Delegate", "yes")
	set("TasksMax", "infinity")
	set("LimitNOFILE", "1024:524288")
	set("IgnoreSIGPIPE", "no")
	u.set("Install", "WantedBy", "multi-user.target")
	return s.Result(manifest.File{Name: o.Name + ".service", Text: u.text()},
		manifest.File{Name: o.Name + ".toml", Text: m.Text()}), nil
}

// leastStop is the TimeoutStopSec= of packaging/superd.service.
const leastStop = 90 * time.Second
