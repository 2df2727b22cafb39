package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

const (
	// completions bounds the names that a shell is offered, completionTime how long the shell
	// waits.
	completions    = 100
	completionTime = 2 * time.Second
)

// completeJobs completes the first argument with names of jobs, if the API answers in time.
func completeJobs(r *cli.Remote) cobra.CompletionFunc {
	return completeNames(r, func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool) {
		for job, err := range client.Jobs(ctx, httpapi.JobQuery{NamePrefix: begin, Limit: completions}) {
			if err != nil || job.Name != "" && !offer(job.Name, job.State) {
				return
			}
		}
	})
}

// completeTenants completes the first argument with names of tenants, if the API answers in time.
func completeTenants(r *cli.Remote) cobra.CompletionFunc {
	return completeNames(r, func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool) {
		for t, err := range client.Tenants(ctx) {
			if err != nil || strings.HasPrefix(t.Name, begin) && !offer(t.Name, fmt.Sprintf("weight %d", t.Weight)) {
				return
			}
		}
	})
}

// completeNames completes the first argument. find calls offer with each name that begins with
// `begin` and a few words about it, until offer returns false: there are enough.
func completeNames(r *cli.Remote, find func(ctx context.Context, client *httpapi.Client, begin string, offer func(name, what string) bool)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c := r.ClientConfig(r.Nodes()...)
		c.Retries = -1
		client, err := httpapi.NewClient(c)
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
