package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagWants says what a flag takes, by its type. The library only says how it failed to read the
// value.
var FlagWants = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a span such as 500ms, 30s or 1h30m",
}

// badFlag turns the library's error about a value of the wrong type into one that says what the
// flag takes.
func badFlag(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 {
		// The flag is of a command that does not exist.
		return unknownCommand(cmd, before[0])
	}
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	name, text := bad.GetFlag().Name, bad.GetValue()
	want, ok := FlagWants[bad.GetFlag().Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return Usagef("--%s: %s is out of range", name, text)
	case ok:
		return Usagef("--%s: %q is not %s", name, text, want)
	default:
		return Usagef("--%s: %w", name, errors.Unwrap(bad))
	}
}

// CompleteFlag has a shell offer these values for a flag of cmd.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag, or it has values already
	}
}
