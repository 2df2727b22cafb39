package client

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// jitters say how a wait before an attempt is drawn.
var jitters = []string{"full", "none"}

// retryFlags are how often an attempt that failed is made again, and after which waits.
type retryFlags struct {
	maxAttempts  int
	initial, max time.Duration
	factor       float64
	jitter       string
}

// flags adds the flags; of is said last in the help of each.
func (f *retryFlags) flags(cmd *cobra.Command, of string) {
	flags := cmd.Flags()
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often to try, the first attempt included"+of)
	flags.DurationVar(&f.initial, "retry-initial", 0, "longest wait before the second attempt: it is drawn from 0 up to this, unless --retry-jitter is none"+of)
	flags.Float64Var(&f.factor, "retry-factor", 0, "how many times as long it is before each attempt after that"+of)
	flags.DurationVar(&f.max, "retry-max", 0, "longest wait before any attempt"+of)
	flags.StringVar(&f.jitter, "retry-jitter", "", "full: a wait is drawn from 0 up to the longest; none: it is the longest"+of)
	cli.CompleteFlag(cmd, "retry-jitter", jitters...)
}

// state adds the flags that were given to a policy, which may be nil.
func (f *retryFlags) state(cmd *cobra.Command, policy *schema.Retry) (*schema.Retry, error) {
	given := cmd.Flags().Changed
	stated := schema.Retry{}
	if policy != nil {
		stated = *policy
	}
	isStated := false
	for _, flag := range []struct {
		name  string
		isBad bool
		set   func()
	}{
		{"max-attempts", f.maxAttempts < 1, func() { stated.MaxAttempts = f.maxAttempts }},
		{"retry-initial", f.initial <= 0, func() { stated.Initial = schema.Duration(f.initial) }},
		{"retry-factor", !(f.factor >= 1), func() { stated.Factor = f.factor }},
		{"retry-max", f.max <= 0, func() { stated.Max = schema.Duration(f.max) }},
		{"retry-jitter", !slices.Contains(jitters, f.jitter), func() { stated.Jitter = f.jitter }},
	} {
		switch {
		case !given(flag.name):
			continue
		case flag.isBad && flag.name == "max-attempts":
			return nil, cli.Usagef("--max-attempts: %d is below 1: a run is tried at least once", f.maxAttempts)
		case flag.isBad && flag.name == "retry-factor":
			return nil, cli.Usagef("--retry-factor: %v is below 1: waits do not become shorter", f.factor)
		case flag.isBad && flag.name == "retry-jitter":
			return nil, cli.Usagef("--retry-jitter: %q is neither full nor none", f.jitter)
		case flag.isBad:
			return nil, cli.Usagef("--%s: %s is not positive", flag.name, cmd.Flags().Lookup(flag.name).Value)
		}
		isStated = true
		flag.set()
	}
	if !isStated {
		return policy, nil
	}
	return &stated, nil
}
