// Package receivers has the commands for the receivers of alerts.
package receivers

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// A Client returns a client of the superd that the flags of a command select.
type Client func() (*control.Client, error)

// Command returns the command notify. failed is its error if a test fails, about which all is said.
func Command(connect Client, failed error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Show the receivers of alerts, or test one",
		Long: `Notify shows the receivers of alerts: who is told, how many events it is behind, how many alerts
wait, and how the last deliveries went.`,
		Example: `  superd ctl notify
  superd ctl notify test ops`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := connect()
			if err != nil {
				return err
			}
			all, err := client.Receivers(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), all)
			}
			return report.Table(cmd.OutOrStdout(), table(all, time.Now()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.AddCommand(testCommand(connect, failed))
	return cmd
}

func testCommand(connect Client, failed error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Deliver a test alert to a receiver",
		Long: `Test delivers an alert with the condition "test" to a receiver, and shows what came of it: the
status and the begin of the answer, or the output of the command. A delivery that is under way is
waited for.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := connect()
			if err != nil {
				return err
			}
			result, err := client.TestReceiver(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = report.JSON(cmd.OutOrStdout(), []control.ReceiverTest{result})
			} else {
				printTest(cmd, &result)
			}
			if err == nil && !result.OK {
				err = failed
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func printTest(cmd *cobra.Command, t *control.ReceiverTest) {
	w := cmd.OutOrStdout()
	if !t.OK {
		w = cmd.ErrOrStderr()
	}
	status := ""
	if t.Status != nil && t.OK {
		status = fmt.Sprintf(", status %d", *t.Status)
	}
	took := words.Round(time.Duration(t.Duration * float64(time.Second)))
	fmt.Fprintf(w, "%s: %s%s, in %s\n", terminal.Sanitize(t.Name), report.OneLine(t.Message), status, words.Duration(took))
	if t.Output != "" {
		fmt.Fprintf(w, "  %s\n", terminal.Sanitize(t.Output))
	}
}

// table returns receivers as a table for people.
func table(all []control.Receiver, now time.Time) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"}, {Title: "STATE"}, {Title: "PENDING", Right: true, Rank: 2}, {Title: "LAG", Right: true, Rank: 3},
		{Title: "LAST SUCCESS", Rank: 1}, {Title: "TARGET", Rank: 4}, {Title: "LAST ERROR", Rank: 1},
	}}
	ago := func(at *time.Time) string {
		return report.Shown(at, func(at time.Time) string { return words.Coarse(now.Sub(at)) + " ago" })
	}
	for _, r := range all {
		state := terminal.Cell{Text: "ok", Colour: terminal.Green}
		problem := ""
		if r.LastError != nil {
			problem = *r.LastError + " (" + ago(r.LastErrorAt) + ")"
		}
		switch {
		case r.Problem != nil:
			state, problem = terminal.Cell{Text: "not used", Colour: terminal.Red}, *r.Problem
		case r.Failures > 0:
			state = terminal.Cell{Text: "failing", Colour: terminal.Red}
			if r.RetryIn != nil {
				state.Text += ", again in " + words.Coarse(time.Duration(*r.RetryIn*float64(time.Second)))
			}
		case r.Pending > 0:
			state = terminal.Cell{Text: "gathering", Colour: terminal.Yellow}
		}
		t.Add(terminal.Cell{Text: r.Name}, state, terminal.Cell{Text: strconv.Itoa(r.Pending)},
			terminal.Cell{Text: strconv.FormatUint(r.Lag, 10)}, terminal.Cell{Text: ago(r.LastSuccess)},
			terminal.Cell{Text: terminal.Sanitize(r.Target)}, terminal.Cell{Text: report.OneLine(problem)})
	}
	return t
}
