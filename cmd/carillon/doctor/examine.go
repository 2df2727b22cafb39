package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// Facts are what was seen. What was not looked at is nil.
type Facts struct {
	Version    string
	At         time.Time
	File       string // of the configuration
	Configured bool   // there is a configuration of a node
	ConfigErr  error
	Config     config.Config
	Key        bool // there is a key for the API
	Store      *StoreFacts
	Queue      *QueueFacts
	Nodes      []NodeFacts
	Disks      []DiskFacts
}

// judge returns all findings.
func (f *Facts) judge() []Finding {
	var all findings
	for _, judge := range []func(*Facts) findings{judgeConfig, judgeStore, judgeQueue, judgeClocks, judgeNodes, judgeDisks} {
		all = append(all, judge(f)...)
	}
	return all
}

// Bounds of what is read of the store.
const (
	maxTenants = 500
	maxSecrets = 500 // of a tenant
	maxKeys    = 500
)

// lookAtStore looks at the Cassandra of the configuration.
func lookAtStore(ctx context.Context, c config.Config) *StoreFacts {
	s := &StoreFacts{}
	cc, err := node.CassandraConfig(c, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		s.Err = err
		return s
	}
	store, err := cassandra.Connect(ctx, cc)
	if err != nil {
		s.Err = err
		return s
	}
	defer func() { _ = store.Close() }() // never fails
	s.Seen = store.Examine(ctx)
	s.Clocks = readClocks(ctx, "cassandra", store.Clocks())
	if shared := c.Regions.Migration(); shared != nil {
		s.Shared = lookAtShared(ctx, cc, shared)
	}
	if s.Seen.NotMigrated != nil {
		return s
	}
	if s.Settings, err = store.Settings(ctx); err != nil {
		s.Seen.Unread = append(s.Seen.Unread, err)
	}
	s.AdminKeys, s.KeysErr = adminKeys(ctx, store, time.Now())
	if s.SealedWith, err = sealedWith(ctx, store); err != nil {
		s.Seen.Unread = append(s.Seen.Unread, err)
	}
	return s
}

// lookAtShared looks at the keyspace that regions share.
func lookAtShared(ctx context.Context, cc cassandra.Config, shared *cassandra.Regions) error {
	cc.Keyspace = shared.Keyspace
	epochs, err := cassandra.OpenEpochs(ctx, cc)
	if err != nil {
		return err
	}
	defer func() { _ = epochs.Close() }() // never fails
	return epochs.Check(ctx, shared)
}

// adminKeys counts the keys of the tenant system with the role admin that are good at now.
func adminKeys(ctx context.Context, store schema.APIKeyStore, now time.Time) (n int, err error) {
	keys, err := store.APIKeys(ctx, schema.SystemTenant, "", maxKeys)
	if err != nil {
		return 0, fmt.Errorf("read the keys of the tenant %s: %w", schema.SystemTenant, err)
	}
	for i := range keys {
		k := &keys[i]
		if k.Fault == nil && k.Role == schema.Admin && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)) {
			n++
		}
	}
	return n, nil
}

// secretStore is what sealedWith reads.
type secretStore interface {
	schema.TenantStore
	schema.SecretStore
}

// sealedWith names the keys with which the secrets in force are encrypted, with how many each.
func sealedWith(ctx context.Context, store secretStore) (map[string]int, error) {
	found := make(map[string]int)
	tenants, err := store.Tenants(ctx, "", maxTenants)
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	for _, t := range tenants {
		secrets, err := store.Secrets(ctx, t.Name, "", maxSecrets)
		if err != nil {
			return nil, fmt.Errorf("read the secrets of tenant %s: %w", t.Name, err)
		}
		for i := range secrets {
			if s := &secrets[i]; s.Fault == nil && len(s.Versions) > 0 {
				found[s.Versions[0].SealedWith]++
			}
		}
	}
	return found, nil
}

// lookAtQueue looks at the NATS of the configuration, and at the monitoring ports of these URLs.
func lookAtQueue(ctx context.Context, c config.Config, monitors []string, client *http.Client) *QueueFacts {
	q := &QueueFacts{}
	x, err := jetstream.NewExaminer(node.NATSConfig(c, slog.New(slog.DiscardHandler), nil))
	if err != nil {
		q.Err = err
		return q
	}
	defer func() { _ = x.Close() }() // it was only read
	q.Seen = x.Examine(ctx)
	q.Clocks = readClocks(ctx, "nats", x.Clocks())
	for _, url := range monitors {
		q.Monitors = append(q.Monitors, monitor(ctx, client, url))
	}
	return q
}

// monitor asks the monitoring port of a NATS server.
func monitor(ctx context.Context, client *http.Client, url string) (m MonitorFacts) {
	m.URL = url
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/varz", nil)
	if err != nil {
		m.Err = fmt.Errorf("ask for /varz: %w", err)
		return m
	}
	resp, err := client.Do(req)
	if err != nil {
		m.Err = fmt.Errorf("ask for /varz: %w", err)
		return m
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		m.Err = fmt.Errorf("/varz answers %s", resp.Status)
		return m
	}
	var said struct {
		Name      string `json:"server_name"`
		JetStream struct {
			Config *struct {
				Limit  int64         `json:"max_storage"`
				Sync   time.Duration `json:"sync_interval"`
				Always bool          `json:"sync_always"`
			} `json:"config"`
			Stats struct {
				Used int64 `json:"storage"`
			} `json:"stats"`
		} `json:"jetstream"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMetrics)).Decode(&said); err != nil {
		m.Err = fmt.Errorf("read /varz: %w", err)
		return m
	}
	if m.Name = said.Name; m.Name == "" {
		m.Err = errors.New("/varz is not that of a NATS server")
		return m
	}
	if c := said.JetStream.Config; c != nil {
		m.On, m.Limit, m.Sync, m.Always, m.Used = true, c.Limit, c.Sync, c.Always, said.JetStream.Stats.Used
	}
	return m
}

// readClocks reads the clocks of all hosts at once.
func readClocks(ctx context.Context, part string, clocks []schema.HostClock) []ClockReading {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	readings := make([]ClockReading, len(clocks))
	var all sync.WaitGroup
	for i, c := range clocks {
		name := c.Name
		if name == "" {
			name = c.Host
		}
		readings[i].Host = part + " " + name
		all.Go(func() {
			sent := time.Now()
			theirs, err := c.Time(ctx)
			took := time.Since(sent)
			readings[i].Err = err
			if err == nil {
				readings[i].Margin, readings[i].Offset = took/2, theirs.Sub(sent.Add(took/2).Round(0))
			}
		})
	}
	all.Wait()
	return readings
}
