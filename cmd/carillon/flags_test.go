package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag of every command that is not text says what it takes when it is given something else, and the command does nothing.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	seen := make(map[string]int) // by type
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if kind == "string" || strings.HasPrefix(kind, "string") {
				return
			}
			seen[kind]++
			args := slices.Concat(strings.Fields(cmd.CommandPath())[1:], []string{"--" + f.Name + "=x1"})
			if r, want := carillon(t.Context(), "", args...), "carillon: --"+f.Name+`: "x1" is not `+flagWants[kind]+"\n"; r.code != 2 || r.stderr != want || r.stdout != "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and %q", strings.Join(args, " "), r.code, r.stderr, want)
			}
		})
	}
	walk(root())
	for _, kind := range []string{"int", "int64", "bool", "duration"} {
		if seen[kind] == 0 {
			t.Errorf("no flag of the type %s was found, by type %v", kind, seen)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"task set a --max-concurrent 1.5":                  `--max-concurrent: "1.5" is not a whole number`,
		"task set a --max-concurrent=":                     `--max-concurrent: "" is not a whole number`,
		"task set a --max-concurrent 99999999999999999999": "--max-concurrent: 99999999999999999999 is out of range",
		"tenant set a --payload-bytes-per-minute -1e99":    `--payload-bytes-per-minute: "-1e99" is not a whole number`,
		"task set a --timeout 5":                           `--timeout: "5" is not a span such as 500ms, 30s or 1h30m`,
		"job create --task b --in soon":                    `--in: "soon" is not a span such as 500ms, 30s or 1h30m`,
		"job backfill a --wait=perhaps --from 2h --to 1h":  `--wait: "perhaps" is not true or false`,
		"task set a --max-concurrent":                      "flag needs an argument: --max-concurrent",
		"task set a --max-concurrents 1":                   "unknown flag: --max-concurrents",
		"dev --slots 0":                                    "executor.slots: 0 is not between 1 and 1,000,000",
		"run list --limit \u0661":                          "--limit: \"\u0661\" is not a whole number",
	} {
		t.Run(args, func(t *testing.T) {
			if r := carillon(t.Context(), "", strings.Fields(args)...); r.code != 2 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "strconv") {
				t.Errorf("carillon %s exits %d with %q, want 2 and %q", args, r.code, r.stderr, want)
			}
		})
	}
}

// A flag of serve stands for a setting: its value is held to what that may be, and the report says that a flag gave it.
func TestServeHoldsItsFlagsToTheSettings(t *testing.T) {
	r := carillon(t.Context(), "", "serve", "--slots", "0")
	if r.code == 0 || !strings.Contains(r.stderr, "executor.slots: 0 is not between 1 and 1,000,000\n") || !strings.Contains(r.stderr, "flags for: executor.slots\n") {
		t.Errorf("carillon serve --slots 0 exits %d with %q, want the fault of executor.slots, and that a flag gave it", r.code, r.stderr)
	}
}
