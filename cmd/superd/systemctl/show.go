package systemctl

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/words"
)

// A property is a key of the status with its value as text.
type property struct{ key, value string }

// Show returns the command show.
func (c *CLI) Show() *cobra.Command {
	var asJSON, valueOnly bool
	var keys []string
	cmd := &cobra.Command{
		Use:   "show NAME...",
		Short: "Print the status as KEY=value lines, as systemctl does",
		Long: `Show prints a line KEY=value for each key of the status, and an empty line between instances. The
keys are those of ` + "`superd ctl status --json`" + `, which stay; a key of an object has its name before a
dot, as in exit.code. A value that is absent is empty. The items of a list are separated by blanks.`,
		Example: `  superd ctl show web
  superd ctl show -p state,pid web
  test "$(superd ctl show -p exit.code --value backup)" = 0`,
		Args:              needName,
		ValidArgsFunction: c.Complete,
		RunE: func(cmd *cobra.Command, names []string) error {
			for _, key := range keys {
				if all := propertyKeys(); !slices.Contains(all, key) {
					return c.Wrong(fmt.Errorf("read --property: there is no key %q%s", key, meant(key, all)))
				}
			}
			client, err := c.Client()
			if err != nil {
				return err
			}
			all, err := client.Status(cmd.Context(), names)
			if err != nil {
				return err
			}
			PrintEmpty(cmd.ErrOrStderr(), Empty(names, all))
			if asJSON {
				return showJSON(cmd.OutOrStdout(), all, keys)
			}
			return show(cmd.OutOrStdout(), all, keys, valueOnly)
		},
	}
	cmd.Flags().StringSliceVarP(&keys, "property", "p", nil, "print these `keys` only, in this order")
	cmd.Flags().BoolVar(&valueOnly, "value", false, "print values without their keys")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, with an object of strings for each instance")
	_ = cmd.RegisterFlagCompletionFunc("property", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return propertyKeys(), cobra.ShellCompDirectiveNoFileComp
	}) // no error: the flag is defined
	return cmd
}

// counterparts says where superd shows what a property of systemctl does.
var counterparts = []struct{ property, shows string }{
	{"ActiveEnterTimestamp", "the key since"},
	{"ActiveState", "the command is-active, or the key state"},
	{"CPUUsageNSec", "the key cpu_s"},
	{"ExecMainPID", "the key pid"},
	{"ExecMainStatus", "the key exit.code"},
	{"FragmentPath", "the command cat"},
	{"Id", "the key name"},
	{"MainPID", "the key pid"},
	{"MemoryCurrent", "the key rss_bytes"},
	{"NRestarts", "the key restarts"},
	{"Requires", "the command list-dependencies"},
	{"Result", "the key reason"},
	{"StatusText", "the key status_text"},
	{"SubState", "the key state"},
	{"UnitFileState", "the key autostart"},
}

// meant returns a hint for a key that there is not, as a clause.
func meant(key string, keys []string) string {
	for _, c := range counterparts {
		if strings.EqualFold(c.property, key) {
			return "; " + c.shows + " has what systemctl shows as " + c.property
		}
	}
	return words.DidYouMean(key, keys, ": the keys are "+strings.Join(keys, ", "))
}

func show(w io.Writer, all []control.Status, keys []string, valueOnly bool) error {
	var out bytes.Buffer
	for i := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		for _, p := range selected(&all[i], keys) {
			if !valueOnly {
				out.WriteString(p.key + "=")
			}
			out.WriteString(p.value + "\n")
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

func showJSON(w io.Writer, all []control.Status, keys []string) error {
	objects := make([]map[string]string, len(all))
	for i := range all {
		objects[i] = map[string]string{}
		for _, p := range selected(&all[i], keys) {
			objects[i][p.key] = p.value
		}
	}
	return report.JSON(w, objects)
}

// selected returns the properties of these keys, of all without keys.
func selected(s *control.Status, keys []string) []property {
	all := properties(s)
	if len(keys) == 0 {
		return all
	}
	list := make([]property, 0, len(keys))
	for _, key := range keys {
		p := property{key: key} // absent
		if i := slices.IndexFunc(all, func(p property) bool { return p.key == key }); i >= 0 {
			p = all[i]
		}
		list = append(list, p)
	}
	return list
}

// propertyKeys returns all keys, in the order of the status.
func propertyKeys() []string {
	var keys []string
	for _, p := range properties(&control.Status{}) {
		keys = append(keys, p.key)
	}
	return keys
}

// properties returns the keys of a status, as its JSON has them, always the same ones.
func properties(s *control.Status) []property { return flatten(nil, "", reflect.ValueOf(s).Elem()) }

// flatten appends the fields of a struct with the names that they have in JSON.
func flatten(all []property, prefix string, v reflect.Value) []property {
	for field, value := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner, absent := field.Type, false
		if inner.Kind() == reflect.Pointer {
			if inner = inner.Elem(); value.IsNil() {
				value, absent = reflect.Zero(inner), true
			} else {
				value = value.Elem()
			}
		}
		switch {
		case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && absent:
			for _, p := range flatten(nil, prefix+name+".", value) {
				all = append(all, property{key: p.key})
			}
		case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]():
			all = flatten(all, prefix+name+".", value)
		case absent:
			all = append(all, property{key: prefix + name})
		default:
			all = append(all, property{prefix + name, report.OneLine(textOf(value))})
		}
	}
	return all
}

// textOf returns a value as JSON has it, but without quotes, and a list with blanks.
func textOf(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Time:
		if value.IsZero() {
			return ""
		}
		return value.Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case []string:
		return strings.Join(value, " ")
	default:
		return fmt.Sprint(value)
	}
}
