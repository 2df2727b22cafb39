package cluster

import (
	"context"
	"errors"
	"fmt"

	"carillon.dev/carillon/deploy/local/netns"
	"carillon.dev/carillon/deploy/local/wan"
)

// NamespacesAvailable is nil where Spec.Namespaces can be used; else it says everything that is
// missing.
func NamespacesAvailable() error { return netns.Available() }

// within returns the command line that runs argv where the member lives.
func (c *Cluster) within(m member, argv []string) []string {
	if s := c.plan.Site; s != nil {
		return wan.Argv(s.Network, s.Name, argv)
	}
	if !c.plan.Spec.Namespaces {
		return argv
	}
	return c.plan.network().Argv(m.name(), argv)
}

// makeNetwork makes the namespaces of a cluster whose block was just reserved. First it removes
// networks that killed programs left behind: those whose blocks nobody holds.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	if !c.plan.Spec.Namespaces {
		return nil
	}
	if err := NamespacesAvailable(); err != nil {
		return err
	}
	numbers, err := netns.Leftover(ctx)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := c.removeLeftover(ctx, number); err != nil {
			return err
		}
	}
	var members []netns.Member
	for _, m := range c.plan.members() {
		members = append(members, networkMember(m))
	}
	n := c.plan.network()
	c.network = &n
	return n.Make(ctx, members)
}

// removeLeftover removes a network whose block no other program holds.
func (c *Cluster) removeLeftover(ctx context.Context, number int) error {
	if b := block(number); b != c.plan.Block {
		guard, err := listen(ctx, b.addr(1, reservePort))
		if errors.Is(err, errBusy) {
			return nil // another program uses it
		}
		if err != nil {
			return err
		}
		defer func() { _ = guard.Close() }()
	}
	c.say(fmt.Sprintf("removing network %d, left by a program that was killed", number))
	return netns.New(number).Remove(ctx)
}

// Host is the address of this machine that the members reach: for receivers of their calls.
func (c *Cluster) Host() string {
	if s := c.plan.Site; s != nil {
		return wan.Host(s.Network)
	}
	if c.plan.Spec.Namespaces {
		return c.plan.network().Host()
	}
	return "127.0.0.1"
}

// Cut drops every packet from one member to another until Heal. The other direction stays. It needs
// Spec.Namespaces.
func (c *Cluster) Cut(ctx context.Context, from, to string) error {
	return c.link(ctx, "cut", from, to, netns.Network.Cut)
}

// Heal ends Cut from one member to another. It is no error if there was none.
func (c *Cluster) Heal(ctx context.Context, from, to string) error {
	return c.link(ctx, "heal", from, to, netns.Network.Heal)
}

func (c *Cluster) link(ctx context.Context, act, from, to string, do func(n netns.Network, ctx context.Context, member, from string) error) error {
	sender, err := c.find(from)
	if err != nil {
		return err
	}
	receiver, err := c.find(to)
	if err != nil {
		return err
	}
	if !c.plan.Spec.Namespaces {
		return fmt.Errorf("%s %s: the members have no network namespaces", act, to)
	}
	if err := do(c.plan.network(), ctx, receiver.name(), c.plan.ip(sender.kind, sender.index)); err != nil {
		return fmt.Errorf("%s what %s sends to %s: %w", act, from, to, err)
	}
	return nil
}

// Dropped returns how many packets to the member cuts have dropped so far.
func (c *Cluster) Dropped(ctx context.Context, name string) (int, error) {
	m, err := c.find(name)
	if err != nil {
		return 0, err
	}
	if !c.plan.Spec.Namespaces {
		return 0, nil
	}
	return c.plan.network().Dropped(ctx, m.name())
}
