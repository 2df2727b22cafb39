package client

import (
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// retryFlags are how often an attempt that failed is made again, and after which waits.
type retryFlags struct {
	maxAttempts  int
	initial, max time.Duration
	factor       float64
}

// flags adds the flags; of is said last in the help of each.
func (f *retryFlags) flags(cmd *cobra.Command, of string) {
	flags := cmd.Flags()
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often to try, at least once"+of)
	flags.DurationVar(&f.initial, "retry-initial", 0, "longest wait before the second attempt; the wait is drawn from 0 up to it"+of)
	flags.Float64Var(&f.factor, "retry-factor", 0, "how many times as long it is before each attempt after that"+of)
	flags.DurationVar(&f.max, "retry-max", 0, "longest wait before any attempt"+of)
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
	} {
		switch {
		case !given(flag.name):
			continue
		case flag.isBad && flag.name == "max-attempts":
			return nil, cli.Usagef("--max-attempts: %d is below 1: a run is tried at least once", f.maxAttempts)
		case flag.isBad && flag.name == "retry-factor":
			return nil, cli.Usagef("--retry-factor: %v is below 1: waits do not become shorter", f.factor)
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
