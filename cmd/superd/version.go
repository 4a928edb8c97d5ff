package main

import (
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
)

// version is set by the linker in a release: -ldflags "-X main.version=1.2.3".
var version = "devel"

// ownVersion returns the version of this binary and the features of the kernel.
func ownVersion() control.Version {
	v := control.Version{Version: version, Features: features()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v.Commit = &setting.Value
			}
		}
	}
	return v
}

// binaryOnly returns v without the features of the kernel.
func binaryOnly(v control.Version) control.Version {
	v.Features = nil
	return v
}

func newVersionCommand() *cobra.Command {
	var features, asJSON bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Show the version of this binary",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := ownVersion()
			if !features {
				v = binaryOnly(v)
			}
			if asJSON {
				return report.Object(cmd.OutOrStdout(), binaryVersion{v.Version, v.Commit, v.Features})
			}
			printVersion(cmd.OutOrStdout(), v)
			return nil
		},
	}
	cmd.Flags().BoolVar(&features, "features", false,
		"also show which newer features the kernel has")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// A binaryVersion is what version prints without a running superd.
type binaryVersion struct {
	Version  string          `json:"version"`
	Commit   *string         `json:"commit"`
	Features map[string]bool `json:"features,omitempty"`
}

func newCtlVersionCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Show the version of the running superd",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			v, err := client.Version(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return report.Object(cmd.OutOrStdout(), v)
			}
			printVersion(cmd.OutOrStdout(), v)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func printVersion(w io.Writer, v control.Version) {
	fmt.Fprintf(w, "superd %s", v.Version)
	if v.Commit != nil {
		fmt.Fprintf(w, " (%.12s)", *v.Commit)
	}
	if v.Pid != 0 {
		up := time.Duration(v.Uptime * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, ", pid %d, up %v", v.Pid, up)
	}
	fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(v.Features)) {
		sign := "-"
		if v.Features[name] {
			sign = "+"
		}
		fmt.Fprintf(w, "%s%s\n", sign, name)
	}
}
