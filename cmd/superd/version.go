package main

import (
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
)

// The linker sets these in a package: -ldflags "-X main.version=1.2.3". Else commit and date are
// those that Go has recorded, which it does not do in linked worktrees of git.
var (
	version      = "devel"
	commit, date string // date as RFC 3339
)

// ownVersion returns the version of this binary and the features of the kernel.
func ownVersion() control.Version {
	v := control.Version{Version: version, Features: features()}
	if commit != "" {
		v.Commit, v.Date = &commit, &date
	} else if info, ok := debug.ReadBuildInfo(); ok {
		v.Commit, v.Date = builtFrom(info.Settings)
	}
	return v
}

// builtFrom returns the commit that a binary was built from, and its date. The commit ends in
// "-modified" if files differed from it. Both are nil for a build outside of a repository.
func builtFrom(settings []debug.BuildSetting) (commit, date *string) {
	set := map[string]string{}
	for _, s := range settings {
		set[s.Key] = s.Value
	}
	revision, ok := set["vcs.revision"]
	if !ok {
		return nil, nil
	}
	if set["vcs.modified"] == "true" {
		revision += "-modified"
	}
	if at, ok := set["vcs.time"]; ok {
		date = &at
	}
	return &revision, date
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
				return report.Object(cmd.OutOrStdout(), binaryVersion{v.Version, v.Commit, v.Date, v.Features})
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
	Date     *string         `json:"date"`
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
		fmt.Fprintf(w, " (%s)", builtFromText(*v.Commit, v.Date))
	}
	if v.Pid != 0 {
		up := time.Duration(v.Uptime * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, ", pid %d, up %v", v.Pid, up)
	}
	fmt.Fprintln(w)
	printFeatures(w, v.Features)
}

// builtFromText returns a commit, shortened, and the day of its date: "5f3c11aa0b21, 2026-11-21".
func builtFromText(commit string, date *string) string {
	hash, modified, _ := strings.Cut(commit, "-")
	text := fmt.Sprintf("%.12s", hash)
	if modified != "" {
		text += "-" + modified
	}
	if date != nil {
		text += fmt.Sprintf(", %.10s", *date)
	}
	return text
}

func printFeatures(w io.Writer, features map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(features)) {
		sign := "-"
		if features[name] {
			sign = "+"
		}
		fmt.Fprintf(w, "%s%s\n", sign, name)
	}
}
