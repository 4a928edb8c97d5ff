package main

import (
	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/doctor"
)

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what superd can do on this system",
		Long: `Doctor tests what superd needs of the kernel, the container and the user's rights. For each failure
it shows the cause, what superd does instead, which keys of a configuration have no effect, and the
remedy. Run it as the same user and in the same container or service as superd.

The exit status is 1 if superd cannot run here.`,
		Example: `  superd doctor
  superd doctor --json | python3 -m json.tool
  docker run --rm IMAGE superd doctor`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := doctor.Examine()
			if asJSON {
				return endWith(report.Object(cmd.OutOrStdout(), found), found.OK)
			}
			return endWith(found.Print(cmd.OutOrStdout()), found.OK)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// endWith returns err, or else exit status 1 without a message if ok is false.
func endWith(err error, ok bool) error {
	if err == nil && !ok {
		return exitStatus(statusFailed)
	}
	return err
}
