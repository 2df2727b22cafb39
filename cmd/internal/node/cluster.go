package node

import (
	"context"
	"fmt"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

// cluster returns this node's view: the members from gossip, the cursors from the store.
func (n *Node) cluster(ctx context.Context) (httpapi.Cluster, error) {
	cursors, err := n.store.Cursors(ctx)
	if err != nil {
		return httpapi.Cluster{}, fmt.Errorf("cursors: %w", err)
	}
	view := n.ring.Snapshot()
	c := httpapi.Cluster{Node: n.cfg.Node.Name, Version: n.opts.Version}
	for _, m := range view.Members() {
		c.Members = append(c.Members, httpapi.Member{
			Name: m.Name, Address: m.Addr, API: m.API, Roles: m.Roles, Unhealthy: m.Unhealthy, Zone: m.Zone, Region: m.Region, Version: m.Version,
		})
	}
	now := schema.BucketOf(n.now())
	for _, cur := range cursors {
		s := httpapi.Shard{
			Shard: cur.Shard, Epoch: cur.Epoch, Dispatched: httpapi.Time{Time: cur.Dispatched.End()}, Settled: httpapi.Time{Time: cur.Settled.End()},
			BehindSeconds: max(now.Start().Sub(cur.Dispatched.End()).Seconds(), 0),
		}
		if owner, ok := view.Owner(cur.Shard); ok {
			s.Owner = owner.Name
		}
		c.Shards = append(c.Shards, s)
	}
	if region := n.cfg.Node.Region; region != "" {
		c.Regions = []httpapi.Region{{Name: region, Local: true, Epoch: 1}}
	}
	return c, nil
}
