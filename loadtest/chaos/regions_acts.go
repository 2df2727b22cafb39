package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/wait"
)

// The acts on regions. The member of a step is a region ("eu"), two of them ("eu to us"), or a
// delay.
const (
	ActRegionKill  Act = "kill -9 region"
	ActRegionStart Act = "start region"
	ActRegionCut   Act = "cut off region"
	ActRegionHeal  Act = "heal region"
	ActRegionDelay Act = "delay between regions"
	ActFailOver    Act = "fail over"
	ActMove        Act = "move"
)

var regionActs = acts{
	ActRegionKill: func(ctx context.Context, r *run, name string) (string, error) {
		r.sample()
		c, err := r.site(name)
		if err != nil {
			return "", err
		}
		var g errgroup.Group
		for member := range c.Status().PIDs() {
			g.Go(func() error { return c.Kill(ctx, member) })
		}
		return "", g.Wait()
	},
	ActRegionStart: func(ctx context.Context, r *run, name string) (string, error) {
		c, err := r.site(name)
		if err != nil {
			return "", err
		}
		s := c.Status()
		for _, of := range [][]cluster.MemberStatus{slices.Concat(s.Cassandra, s.NATS), s.Carillon} {
			for _, m := range of { // the folder of a cluster is locked by each start
				if err := c.StartMember(ctx, m.Name); err != nil {
					return "", err
				}
			}
		}
		return "", nil
	},
	ActRegionCut: func(ctx context.Context, r *run, name string) (string, error) {
		return "", r.eachLink(ctx, name, cutLink)
	},
	ActRegionHeal: func(ctx context.Context, r *run, name string) (string, error) {
		return "", r.eachLink(ctx, name, healLink)
	},
	ActRegionDelay: func(ctx context.Context, r *run, text string) (string, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "", fmt.Errorf("delay: %w", err)
		}
		return "", r.regions.Control().Delay(ctx, "", "", d)
	},
	ActFailOver: func(ctx context.Context, r *run, text string) (string, error) { return r.hand(ctx, "failover", text) },
	ActMove:     func(ctx context.Context, r *run, text string) (string, error) { return r.hand(ctx, "move", text) },
}

func cutLink(ctx context.Context, r *cluster.Regions, from, to string) error {
	return r.Control().Cut(ctx, from, to)
}

func healLink(ctx context.Context, r *cluster.Regions, from, to string) error {
	return r.Control().Heal(ctx, from, to)
}

// eachLink does something to all links of a region, both ways.
func (r *run) eachLink(ctx context.Context, name string, do func(ctx context.Context, r *cluster.Regions, from, to string) error) error {
	var faults []error
	for _, other := range r.regions.Names() {
		if other != name {
			faults = append(faults, do(ctx, r.regions, name, other), do(ctx, r.regions, other, name))
		}
	}
	return errors.Join(faults...)
}

// hand has a home served by another region, as an operator does: the command is given again while
// it is refused. text is "home to region".
func (r *run) hand(ctx context.Context, how, text string) (note string, err error) {
	name, to, _ := strings.Cut(text, toWord)
	dir := filepath.Join(r.cfg.Dir, "cluster")
	config := filepath.Join(dir, to, numbered("carillon", 1), "carillon.yaml")
	for began, tries := time.Now(), 1; ; tries++ {
		bounded, cancel := context.WithTimeout(ctx, commandWithin)
		cmd := exec.CommandContext(bounded, r.nodeProgram(), "region", how, name, "--to", to, "--reason", "chaos", "--config", config) // #nosec G204 -- our own program
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err = cmd.Run()
		cancel()
		r.log.Info("command about a region", "command", how, "says", out.String())
		if err == nil {
			return fmt.Sprintf("after %.1f s, %d times asked", time.Since(began).Seconds(), tries), nil
		}
		if time.Since(began) > commandWithin {
			return "", fmt.Errorf("region %s %s: %w: %s", how, text, err, out.String())
		}
		if err := wait.For(ctx, commandEvery); err != nil {
			return "", err
		}
	}
}
