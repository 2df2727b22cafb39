package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagWants says what a flag of a type takes; the library answers with how it failed to read it.
var flagWants = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a span such as 500ms, 30s or 1h30m",
}

// badFlag says of a flag whose value is none of its type what it should be, as commands do of values that make no sense.
func badFlag(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	name, text := bad.GetFlag().Name, bad.GetValue()
	want, ok := flagWants[bad.GetFlag().Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return usagef("--%s: %s is out of range", name, text)
	case ok:
		return usagef("--%s: %q is not %s", name, text, want)
	default:
		return usagef("--%s: %w", name, errors.Unwrap(bad))
	}
}
