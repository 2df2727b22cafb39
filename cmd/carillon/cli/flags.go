package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

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

// Times says in the help of a command what a flag that states a time takes.
const Times = "a time (RFC 3339), a span from now such as -24h or -7d, a date such as 2026-11-21, which is its midnight, or today, yesterday or tomorrow; dates and days are of this machine's time zone"

// days are the words for a day, and how many days it lies after today.
var days = map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}

// Instant reads the time that a flag states: RFC 3339, a span from now such as -10m, a date, or a
// word of days. A date and a word stand for the beginning of that day in the time zone of now. A
// span of whole days, such as -7d, is this time of that day.
func Instant(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if after, err := strconv.ParseInt(n, 10, 16); err == nil {
			return now.AddDate(0, 0, int(after)), nil
		}
	}
	if after, ok := days[text]; ok {
		return time.Date(now.Year(), now.Month(), now.Day()+after, 0, 0, 0, 0, now.Location()), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, Usagef("--%s: %q is neither a time such as 2026-11-21T10:00:00+01:00, a date such as 2026-11-21, today, yesterday or tomorrow, nor a span from now such as -10m or -7d", flag, text)
	}
	return t, nil
}

// TimeFlag is the text of a flag that states a time, and where that time goes.
type TimeFlag struct {
	Name, Text string
	Into       *time.Time
}

// NewTimeFlag makes a TimeFlag.
func NewTimeFlag(name, text string, into *time.Time) TimeFlag { return TimeFlag{name, text, into} }

// Instants reads the flags that are not empty.
func Instants(now time.Time, flags ...TimeFlag) (err error) {
	for _, f := range flags {
		if f.Text == "" {
			continue
		}
		if *f.Into, err = Instant(f.Name, f.Text, now); err != nil {
			return err
		}
	}
	return nil
}

// Window reads --from and --to; both are needed.
func Window(from, to string, now time.Time) (begin, end time.Time, err error) {
	if begin, err = Instant("from", from, now); err != nil {
		return begin, end, err
	}
	if end, err = Instant("to", to, now); err != nil {
		return begin, end, err
	}
	if !begin.Before(end) {
		return begin, end, Usagef("--from must be before --to")
	}
	return begin, end, nil
}

// CompleteFlag has a shell offer these values for a flag of cmd.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag, or it has values already
	}
}
