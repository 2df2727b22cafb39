package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// Every flag that is not text says what it takes when its value has the wrong type, and the command
// does nothing.
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
			if r, want := clitest.Run(t.Context(), "", args...), "carillon: --"+f.Name+`: "x1" is not `+cli.FlagWants[kind]+"\n"; r.Code != 2 || r.Stderr != want || r.Stdout != "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and %q", strings.Join(args, " "), r.Code, r.Stderr, want)
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
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || !strings.Contains(r.Stderr, want) || strings.Contains(r.Stderr, "strconv") {
				t.Errorf("carillon %s exits %d with %q, want 2 and %q", args, r.Code, r.Stderr, want)
			}
		})
	}
}

// A flag of serve is a setting: its value is checked like the setting's, and the error says that it
// came from a flag.
func TestServeHoldsItsFlagsToTheSettings(t *testing.T) {
	r := clitest.Run(t.Context(), "", "serve", "--slots", "0")
	if r.Code == 0 || !strings.Contains(r.Stderr, "executor.slots: 0 is not between 1 and 1,000,000\n") || !strings.Contains(r.Stderr, "flags for: executor.slots\n") {
		t.Errorf("carillon serve --slots 0 exits %d with %q, want the fault of executor.slots, and that a flag gave it", r.Code, r.Stderr)
	}
}

func TestUsageErrorsExit2(t *testing.T) {
	for name, args := range map[string]string{
		"no such command":       "jobs",
		"no such subcommand":    "job make",
		"no such flag":          "job create --colour red",
		"no target":             "job create",
		"two targets":           "job create --url http://a --task b",
		"two times":             "job create --task b --at 2030-01-01T00:00:00Z --in 5s",
		"bad time":              "job create --task b --at someday",
		"past day":              "job create --task b --at yesterday",
		"no zone":               "job create --task b --at tomorrow --timezone Berlin",
		"zone of a span":        "job create --task b --in 5s --timezone Europe/Berlin",
		"bad span":              "job create --task b --in soon",
		"negative span":         "job create --task b --in -5s",
		"no attempt":            "job create --task b --max-attempts 0",
		"no wait":               "job create --task b --retry-initial 0s",
		"a negative wait":       "job create --task b --retry-max -5s",
		"no such jitter":        "job create --task b --retry-jitter half",
		"shorter waits":         "job create --task b --retry-factor 0.5",
		"fewer than none":       "job create --task b --max-attempts -1",
		"empty URL":             "job create --url=",
		"empty task":            "job create --task=",
		"header without colon":  "job create --url http://a --header x",
		"header of no call":     "job create --task a --header x:y",
		"doubled label":         "job create --task a --label x=1 --label x=2",
		"payload is not JSON":   "job create --task a --payload hello",
		"no id":                 "job get",
		"not an id":             "run get 12",
		"bad API":               "job get --api localhost x",
		"bad output":            "run list -o yaml",
		"window backwards":      "run list --from 1h --to 0s",
		"bad window":            "run list --from someday",
		"another end each time": "dead-letter replay --from -24h --idempotency-key k",
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.Run(t.Context(), "", strings.Fields(args)...)
			if r.Code != 2 || !strings.HasPrefix(r.Stderr, "carillon: ") || r.Stdout != "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and the reason", args, r.Code, r.Stderr)
			}
		})
	}
}
