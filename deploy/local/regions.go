package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
)

// regionsFlags adds the flags that describe the regions of a cluster.
func regionsFlags(cmd *cobra.Command) *cluster.RegionsSpec {
	var spec cluster.RegionsSpec
	f := cmd.Flags()
	f.IntVar(&spec.Regions, "regions", 0, "regions (eu, us, ap): 2 or 3, each with the members that the other flags count; 0 = a cluster without regions. Needs root")
	f.DurationVar(&spec.Delay, "delay", 40*time.Millisecond, "of links between regions, one way")
	f.BoolVar(&spec.NoWitness, "no-witness", false, "leave away the region with one Cassandra and nothing else")
	f.BoolVar(&spec.OneKeyspace, "one-keyspace", false, "one keyspace for the Carillon nodes of all regions, with copies in each, instead of one for each region")
	return &spec
}

// upRegions is up where there are regions.
func upRegions(cmd *cobra.Command, dir string, spec cluster.RegionsSpec, each func(func(cluster.Spec) error) (cluster.Spec, error), profiles bool) (err error) {
	spec.Each, err = each(func(s cluster.Spec) error {
		spec.Each = s
		return spec.Validate()
	})
	if err != nil {
		return err
	}
	spec.Each.Profiles = profiles
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o := cluster.Options{Dir: dir, Say: progress(cmd), Hub: []string{program, hubUse}}
	r, err := cluster.UpRegions(cmd.Context(), o, spec)
	if err != nil {
		return err
	}
	return report(cmd.OutOrStdout(), r.Status(cmd.Context()))
}

// hubUse is the command that runs the hub of regions. It is started by up.
const hubUse = "hub"

func hubCommand() *cobra.Command {
	return &cobra.Command{
		Use:    hubUse + " DIR",
		Short:  "Carry frames between the regions of a cluster until told to stop",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return cluster.RunHub(cmd.Context(), args[0]) },
	}
}

// A stoppable is a cluster, or one of regions.
type stoppable interface {
	Down(ctx context.Context) error
	Purge(ctx context.Context) error
}

// openAny opens what is in the folder.
func openAny(o cluster.Options) (stoppable, error) {
	if cluster.HasRegions(o.Dir) {
		return cluster.OpenRegions(o)
	}
	return cluster.Open(o)
}

// openMember opens the cluster that a member is of; the name of one in a region is "eu/nats-1".
func openMember(dir, name string) (c *cluster.Cluster, member string, err error) {
	region, member, found := strings.Cut(name, "/")
	if !found {
		region, member = "", name
	}
	if cluster.HasRegions(dir) {
		r, err := cluster.OpenRegions(cluster.Options{Dir: dir})
		if err != nil {
			return nil, "", err
		}
		if !found || r.Region(region) == nil {
			return nil, "", fmt.Errorf("no member %q: its region is missing, or is none of %s", name, strings.Join(r.Names(), ", "))
		}
	}
	c, err = cluster.Open(cluster.Options{Dir: filepath.Join(dir, region)})
	return c, member, err
}

// linkCommand is a command about the links between two regions.
func linkCommand(dir *string, cmd *cobra.Command, act func(r *cluster.Regions, ctx context.Context, args []string, from, to string) error, regions func(args []string) []string) *cobra.Command {
	oneWay := cmd.Flags().Bool("one-way", false, "only what the first region sends to the second")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := cluster.OpenRegions(cluster.Options{Dir: *dir})
		if err != nil {
			return err
		}
		pair := append(regions(args), "", "")
		if err := act(r, cmd.Context(), args, pair[0], pair[1]); err != nil || *oneWay {
			return err
		}
		return act(r, cmd.Context(), args, pair[1], pair[0])
	}
	return cmd
}

func cutCommand(dir *string) *cobra.Command {
	return linkCommand(dir, &cobra.Command{
		Use:   "cut REGION REGION",
		Short: "Lose everything that two regions send to each other",
		Args:  cobra.ExactArgs(2),
	}, func(r *cluster.Regions, ctx context.Context, _ []string, from, to string) error {
		return r.Control().Cut(ctx, from, to)
	}, func(args []string) []string { return args })
}

func healCommand(dir *string) *cobra.Command {
	return linkCommand(dir, &cobra.Command{
		Use:   "heal [REGION REGION]",
		Short: "End cuts: those between two regions, or all",
		Args:  noneOr(0, 2),
	}, func(r *cluster.Regions, ctx context.Context, _ []string, from, to string) error {
		return r.Control().Heal(ctx, from, to)
	}, func(args []string) []string { return args })
}

func delayCommand(dir *string) *cobra.Command {
	return linkCommand(dir, &cobra.Command{
		Use:   "delay DURATION [REGION REGION]",
		Short: "Set how long packets take between two regions, or between all, one way",
		Args:  noneOr(1, 3),
	}, func(r *cluster.Regions, ctx context.Context, args []string, from, to string) error {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		return r.Control().Delay(ctx, from, to, d)
	}, func(args []string) []string { return args[1:] })
}

// noneOr takes as many arguments as one of two numbers says: two regions, or none.
func noneOr(few, many int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != few && len(args) != many {
			return fmt.Errorf("%d arguments; %d or %d are possible: two regions or none", len(args), few, many)
		}
		return nil
	}
}
