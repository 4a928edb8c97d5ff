package kubernetes

import (
	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/mark"
	"superd/exporter/yamltext"
)

// Where superd finds and keeps its files in a pod.
const (
	configDir  = "/etc/superd"
	configFile = "superd.toml"
	runtimeDir = "/run/superd"
	logDir     = "/var/log/superd"
)

// Whole writes a ConfigMap with the configuration, and a Deployment of one pod in which superd runs
// all programs.
func Whole(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.NewWhole(c, o, ID)
	if err != nil {
		return nil, err
	}
	m, err := mark.NewWhole(Format, s, logDir)
	if err != nil {
		return nil, err
	}
	name := ID(o.Name)
	meta := func() *yamltext.Map {
		return yamltext.Of("name", name, "labels", yamltext.Of(nameLabel, name))
	}
	configMap := yamltext.Of("apiVersion", "v1", "kind", "ConfigMap", "metadata", meta(),
		"data", new(yamltext.Map).SetText(configFile, m.Text()))

	container := yamltext.Of("name", "superd", "image", s.WholeImage(name),
		"command", []string{o.Binary, "run", "--config", configDir + "/" + configFile, "--runtime-dir", runtimeDir})
	var ports []*yamltext.Map
	for _, port := range s.AllPorts() {
		container.Append("ports", yamltext.Of("name", portName(port), "containerPort", port.Number, "protocol", protocol(port)))
		ports = append(ports, yamltext.Of("name", portName(port), "port", port.Number,
			"targetPort", port.Number, "protocol", protocol(port)))
	}
	if services := s.Services(); len(services) > 0 {
		command := append([]string{o.Binary, "ready", "--runtime-dir", runtimeDir}, services...)
		container.Set("readinessProbe", yamltext.Of("exec", yamltext.Of("command", command),
			"periodSeconds", 10, "timeoutSeconds", 5))
	}
	var volumes []*yamltext.Map
	for _, v := range []struct {
		name, path string
		source     *yamltext.Map
	}{
		{"configuration", configDir, yamltext.Of("configMap", yamltext.Of("name", name))},
		{"runtime", runtimeDir, yamltext.Of("emptyDir", yamltext.Of("medium", "Memory"))},
		{"logs", logDir, yamltext.Of("emptyDir", yamltext.Present())},
	} {
		container.Append("volumeMounts", yamltext.Of("name", v.name, "mountPath", v.path))
		volume := yamltext.Of("name", v.name)
		volumes = append(volumes, volume.Merge(v.source))
	}
	pod := yamltext.Of("terminationGracePeriodSeconds", manifest.Seconds(s.StopBudget()),
		"containers", []*yamltext.Map{container}, "volumes", volumes)
	spec := yamltext.Of("replicas", 1, "strategy", yamltext.Of("type", "Recreate"),
		"selector", yamltext.Of("matchLabels", yamltext.Of(nameLabel, name)),
		"template", yamltext.Of("metadata", yamltext.Of("labels", yamltext.Of(nameLabel, name)), "spec", pod))
	deployment := yamltext.Of("apiVersion", "apps/v1", "kind", "Deployment", "metadata", meta(), "spec", spec)

	documents := []*yamltext.Map{configMap.Head(s.Comments()), deployment}
	if ports != nil {
		documents = append(documents, yamltext.Of("apiVersion", "v1", "kind", "Service", "metadata", meta(),
			"spec", yamltext.Of("selector", yamltext.Of(nameLabel, name), "ports", ports)))
	}
	text, err := yamltext.Text(documents...)
	if err != nil {
		return nil, err
	}
	return s.Result(manifest.File{Name: name + ".yaml", Text: text}), nil
}
