package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
)

const (
	// completions is how many names a shell is offered, completionTime how long it waits for them.
	completions    = 100
	completionTime = 2 * time.Second
)

// completeFlag has a shell offer these values for a flag of cmd.
func completeFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag, or it has values already
	}
}

// completeJobs has a shell offer the names of jobs, if the API answers at once.
func completeJobs(r *remote) cobra.CompletionFunc {
	return completeNames(r, func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool) {
		for job, err := range client.Jobs(ctx, httpapi.JobQuery{NamePrefix: begin, Limit: completions}) {
			if err != nil || job.Name != "" && !offer(job.Name, job.State) {
				return
			}
		}
	})
}

// completeTenants has a shell offer the names of tenants, if the API answers at once.
func completeTenants(r *remote) cobra.CompletionFunc {
	return completeNames(r, func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool) {
		for t, err := range client.Tenants(ctx) {
			if err != nil || strings.HasPrefix(t.Name, begin) && !offer(t.Name, fmt.Sprintf("weight %d", t.Weight)) {
				return
			}
		}
	})
}

// completeNames has a shell offer names for the first argument. find asks for those that begin with `begin`, until offer, which is told of one and what
// it is in a few words, says that there are enough.
func completeNames(r *remote, find func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := httpapi.NewClient(r.completing())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer client.Close()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		var names []string
		find(ctx, client, toComplete, func(name, what string) bool {
			names = append(names, name+"\t"+what)
			return len(names) < completions
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completing returns the configuration of a client that tries once.
func (r *remote) completing() httpapi.ClientConfig {
	c := r.config(r.nodes()...)
	c.Retries = -1
	return c
}
