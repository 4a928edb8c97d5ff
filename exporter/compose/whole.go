package compose

import (
	"strconv"

	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/mark"
	"superd/exporter/yamltext"
)

// Where superd finds and keeps its files in a container.
const (
	configPath = "/etc/superd/superd.toml"
	runtimeDir = "/run/superd"
	logDir     = "/var/log/superd"
)

// Whole writes one service, in which superd runs all programs.
func Whole(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.NewWhole(c, o, ID)
	if err != nil {
		return nil, err
	}
	m, err := mark.NewWhole(Format, s, logDir)
	if err != nil {
		return nil, err
	}
	name := project(o.Name)
	service := yamltext.Of("image", escape(s.WholeImage(name)),
		"entrypoint", []string{escape(o.Binary), "run", "--config", configPath, "--runtime-dir", runtimeDir},
		"command", yamltext.EmptyList{}, "restart", "always", "stop_grace_period", s.StopBudget().String())
	if services := s.Services(); len(services) > 0 {
		test := append([]string{"CMD", escape(o.Binary), "ready", "--runtime-dir", runtimeDir}, services...)
		service.Set("healthcheck", yamltext.Of("test", test, "interval", "10s", "timeout", "5s"))
	}
	for _, port := range s.AllPorts() {
		protocol := "tcp"
		if port.UDP {
			protocol = "udp"
		}
		service.Append("ports", yamltext.Of("target", port.Number, "published", strconv.Itoa(port.Number), "protocol", protocol))
	}
	service.Append("configs", yamltext.Of("source", "superd", "target", configPath))
	service.Append("volumes", yamltext.Of("type", "tmpfs", "target", runtimeDir))
	service.Append("volumes", yamltext.Of("type", "volume", "source", "logs", "target", logDir))
	root := yamltext.Of("name", name, "services", yamltext.Of(name, service),
		"configs", yamltext.Of("superd", new(yamltext.Map).SetText("content", escape(m.Text()))),
		"volumes", yamltext.Of("logs", yamltext.Present()))
	text, err := yamltext.Text(root.Head(s.Comments()))
	if err != nil {
		return nil, err
	}
	return s.Result(manifest.File{Name: fileName, Text: text}), nil
}
