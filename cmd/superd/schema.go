package main

import (
	"github.com/spf13/cobra"

	"superd/config/schema"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the configuration, for editors",
		Long: `Schema prints a JSON Schema (draft-07) of the configuration. Editors that know TOML complete keys
with it, show what they mean, and mark mistakes. A file names its schema in its first line:

  #:schema ./superd.schema.json`,
		Example:           `  superd schema > superd.schema.json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := schema.JSON()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
