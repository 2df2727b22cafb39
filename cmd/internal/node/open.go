package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
	pebble "carillon.dev/carillon/schema/embedded"
)

// storeRetry is the pause between two attempts to open the store.
const storeRetry = 2 * time.Second

// CassandraConfig turns the configuration into the adapter's.
func CassandraConfig(c config.Config, log *slog.Logger, reg prometheus.Registerer) (cassandra.Config, error) {
	cc := cassandra.Config{
		Hosts: c.Cassandra.Hosts, Keyspace: c.Cassandra.Keyspace, Datacenter: c.Cassandra.Datacenter,
		Username: c.Cassandra.Username, Password: c.Cassandra.Password, Logger: log, Registerer: reg,
	}
	// Hosts may carry the port, which is the same for all.
	cc.Hosts = nil
	for _, h := range c.Cassandra.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			cc.Hosts = append(cc.Hosts, h)
			continue
		}
		n, err := strconv.Atoi(port)
		if err != nil || cc.Port != 0 && cc.Port != n {
			return cassandra.Config{}, fmt.Errorf("cassandra.hosts: %q: one port for all hosts", h)
		}
		cc.Hosts, cc.Port = append(cc.Hosts, host), n
	}
	if t := c.Cassandra.TLS; t.Enabled {
		cc.TLS = &cassandra.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
	}
	if m, err := c.Regions.Map(); err == nil && c.Regions.Enabled() {
		cc.Datacenters = slices.Sorted(maps.Values(m.Datacenters))
	}
	return cc, cc.Validate()
}

// NATSConfig turns the configuration into the adapter's.
func NATSConfig(c config.Config, log *slog.Logger, reg prometheus.Registerer) jetstream.Config {
	jc := jetstream.Config{
		URLs: c.NATS.URLs, Name: c.Node.Name, Credentials: c.NATS.Credentials, User: c.NATS.User,
		Password: c.NATS.Password, Token: c.NATS.Token, Lanes: c.NATS.Lanes, Logger: log, Registerer: reg,
	}
	if t := c.NATS.TLS; t.Enabled {
		jc.TLS = &jetstream.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
	}
	return jc
}

// Cluster opens a node of a cluster: Cassandra, NATS, gossip.
func Cluster(c config.Config, version string, log *slog.Logger, reg prometheus.Registerer) Opener {
	return Opener{
		Store: func(ctx context.Context) (schema.Store, error) {
			cc, err := CassandraConfig(c, log.With("part", "store"), reg)
			if err != nil {
				return nil, err
			}
			for {
				s, err := cassandra.Open(ctx, cc)
				switch {
				case err == nil:
					return s, nil
				case ctx.Err() != nil:
					return nil, ctx.Err()
				case errors.Is(err, cassandra.ErrNewer), errors.Is(err, cassandra.ErrChanged), errors.Is(err, cassandra.ErrRefused),
					errors.Is(err, cassandra.ErrReplication):
					return nil, err // ErrNotMigrated is retried: a migration may be under way
				}
				log.Warn("cassandra is not usable yet: retrying", "hosts", c.Cassandra.Hosts, "err", err)
				select {
				case <-ctx.Done():
				case <-time.After(storeRetry):
				}
			}
		},
		Queue: func(ctx context.Context) (Queue, error) {
			q, err := jetstream.Connect(ctx, NATSConfig(c, log.With("part", "queue"), reg))
			if err != nil {
				return nil, err
			}
			return q, nil
		},
		Epochs: func(ctx context.Context) (EpochStore, error) {
			cc, err := CassandraConfig(c, log.With("part", "regions"), nil)
			if err != nil {
				return nil, err
			}
			cc.Keyspace = c.Regions.Keyspace
			for {
				s, err := cassandra.OpenEpochs(ctx, cc)
				if err == nil {
					if err = s.Check(ctx, c.Regions.Migration()); err == nil {
						return s, nil
					}
					_ = s.Close() // never fails
				}
				switch {
				case ctx.Err() != nil:
					return nil, ctx.Err()
				case errors.Is(err, cassandra.ErrReplication):
					return nil, err
				}
				log.Warn("the keyspace of regions is not usable yet: retrying", "keyspace", cc.Keyspace, "err", err)
				select {
				case <-ctx.Done():
				case <-time.After(storeRetry):
				}
			}
		},
		Ring: func(shards int, api string) (Ring, error) {
			return ring.New(ring.Config{
				Name: c.Node.Name, Bind: c.Ring.Listen, Advertise: c.Ring.Advertise, Seeds: c.Ring.Seeds, Key: ring.Key(c.Ring.Key),
				API: api, Roles: c.Roles, Zone: c.Node.Zone, Region: c.Node.Region, Version: version, Labels: c.ExecutorLabels().String(), Shards: shards,
				Logger: log.With("part", "ring"), Registerer: reg,
			})
		},
	}
}

// fixedRing is a ring of one member.
type fixedRing struct{ *ring.Fixed }

func (fixedRing) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// ownedQueue is a queue together with its embedded server.
type ownedQueue struct {
	Queue
	server *embedded.Server
}

func (o ownedQueue) Close() error {
	err := o.Queue.Close()
	o.server.Close()
	return err
}

// Place says where a node on embedded parts keeps its data and listens.
type Place struct {
	Dir string // of the store and of NATS
	// NATS, if not nil, makes NATS listen on the loopback interface, at NATSPort or, if that is 0,
	// at a free port. It is called with the URL.
	NATS     func(url string)
	NATSPort int
}

// Embedded opens a node on embedded parts: the store in Pebble, NATS in this process.
func Embedded(c config.Config, at Place, version string, log *slog.Logger, reg prometheus.Registerer) Opener {
	return Opener{
		Store: func(context.Context) (schema.Store, error) {
			s, err := pebble.Open(pebble.Config{Dir: filepath.Join(at.Dir, "store"), Shards: devShards, Logger: log.With("part", "store"), Registerer: reg})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Queue: func(ctx context.Context) (Queue, error) {
			server, err := embedded.Start(embedded.Config{
				Dir: filepath.Join(at.Dir, "nats"), Listen: at.NATS != nil, Port: at.NATSPort, Logger: log.With("part", "nats"),
			})
			if err != nil {
				return nil, err
			}
			if at.NATS != nil {
				at.NATS(server.URL())
			}
			q, err := jetstream.Connect(ctx, jetstream.Config{
				Server: server, Name: c.Node.Name, Lanes: c.NATS.Lanes, Logger: log.With("part", "queue"), Registerer: reg,
			})
			if err != nil {
				server.Close()
				return nil, err
			}
			return ownedQueue{q, server}, nil
		},
		Ring: func(shards int, api string) (Ring, error) {
			r, err := ring.Static([]ring.Member{{Name: c.Node.Name, Incarnation: 1, API: api, Roles: c.Roles, Version: version, Labels: c.ExecutorLabels().String()}}, shards)
			if err != nil {
				return nil, err
			}
			return fixedRing{r}, nil
		},
	}
}

// devShards is the number of shards of a store that carillon dev makes. With few shards one process
// fills its batches better.
const devShards = 16
