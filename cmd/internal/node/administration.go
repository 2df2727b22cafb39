package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/tokens"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/sealed"
)

// administration holds API keys, tenants with their quotas, signing keys, secrets, the audit log, the
// counts of each minute, and what is due in minutes to come.
type administration struct {
	keyring  *admin.Keyring
	keys     *admin.Keys
	tenants  *admin.Tenants
	signing  *admin.Signing
	secrets  *admin.Secrets
	audit    *admin.Audit
	stats    *admin.Stats
	upcoming *admin.Upcoming
	tally    *tally.Tally
	counts   *statsWriter
	minutes  *minutes
}

// openTokens makes what knows callers by their tokens, and what has browsers log in; nil if there
// is no provider, or if it is not for that.
func openTokens(n *Node, stops *cleanups) (httpapi.Tokens, httpapi.LogIn, error) {
	if n.cfg.API.OIDC.Issuer == "" {
		return nil, nil, nil
	}
	c, err := n.cfg.API.OIDC.Tokens(n.cfg.API.Advertise)
	if err != nil {
		return nil, nil, fmt.Errorf("api.oidc: %w", err)
	}
	p, err := tokens.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("api.oidc: %w", err)
	}
	stops.push("provider of tokens", func() error { p.Close(); return nil })
	if !p.LogsIn() {
		return p, nil, nil
	}
	return p, p, nil
}

// openAdministration makes the administration, around what is counted by name. It does no I/O.
func (n *Node) openAdministration(names *tally.Tally, now func() time.Time) *administration {
	log := n.log.With("part", "administration")
	audit := admin.NewAudit(n.store, now, log, n.reg)
	counts := &statsWriter{store: n.store, gather: n.reg, tally: names, node: n.cfg.Node.Name, now: now, log: log}
	asked := &minutes{queue: n.queue, node: n.cfg.Node.Name, members: n.members, counts: counts, log: log}
	return &administration{
		keyring: n.keyring,
		keys:    admin.NewKeys(n.store, n.queue, now, log),
		signing: admin.NewSigning(n.store, n.keyring, n.queue, now),
		secrets: admin.NewSecrets(n.store, n.keyring, n.queue, audit.Note, n.cfg.Node.Name, now, log, n.reg),
		tenants: admin.NewTenants(n.store, n.queue, now, n.bucketers).WithExecutors(func() int { return membersWith(n, config.ExecutorR) }),
		audit:   audit,
		stats:   admin.NewStats(admin.StatsConfig{Store: n.store, Ask: asked.ask, Now: now}),
		upcoming: admin.NewUpcoming(admin.UpcomingConfig{
			Store: n.store, Shards: n.bucketer.ShardsEver, Now: now, Logger: log,
		}),
		tally: names, counts: counts, minutes: asked,
	}
}

// bucketers returns how many nodes share the quotas: those with the role of a bucketer.
func (n *Node) bucketers() int { return membersWith(n, config.Bucketer) }

// membersWith returns how many nodes have a role.
func membersWith(n *Node, role string) (count int) {
	for _, m := range n.ring.Snapshot().Members() {
		if m.Has(role) {
			count++
		}
	}
	return count
}

// run works until ctx ends, and then writes what is still unwritten.
func (o *administration) run(ctx context.Context) error {
	noting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var audit, others sync.WaitGroup
	audit.Go(func() { _ = o.audit.Run(noting) })  // returns nil
	others.Go(func() { _ = o.keys.Run(ctx) })     // returns nil
	others.Go(func() { _ = o.secrets.Run(ctx) })  // returns nil
	others.Go(func() { _ = o.upcoming.Run(ctx) }) // returns nil
	others.Go(func() { o.counts.run(ctx) })
	others.Wait() // at the end, uses of secrets are still to be noted
	stop()
	audit.Wait()
	return nil
}

// subscriptions are to changes of keys, tenants, signing keys and secrets by other nodes.
func (o *administration) subscriptions(q queue.Signals) []subscription {
	return []subscription{
		topic(q, "changed keys", schema.TopicKey, o.keys.Changed),
		topic(q, "changed tenants", schema.TopicTenant, o.tenants.Changed),
		topic(q, "changed signing keys", schema.TopicSigning, o.signing.Changed),
		topic(q, "changed secrets", schema.TopicSecret, o.secrets.Changed),
		{"questions about counts", o.minutes.answer},
	}
}

// openSealing makes the store that seals what tenants write that ask for it. It does no I/O.
func openSealing(n *Node) error {
	keyring, err := admin.ParseKeyring(n.cfg.Secrets.Keys)
	if err != nil {
		return fmt.Errorf("secrets.keys: %w", err)
	}
	n.keyring, n.sealed = keyring, sealed.New(n.store, keyring, n.log.With("part", "store"))
	return nil
}

// sealingQueue is a queue whose messages hold entries as they are stored, also of entries that are
// published straight from memory.
type sealingQueue struct {
	Queue
	sealed *sealed.Store
}

// Publish implements queue.Publisher.
func (q sealingQueue) Publish(ctx context.Context, lane queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	if len(env.Entry.Payload) > 0 && !schema.IsSealed(env.Entry.Payload) {
		stored, err := q.sealed.SealOne(ctx, &env.Entry)
		if err != nil {
			return err
		}
		if stored != nil {
			sent := *env
			sent.Entry.Payload = stored
			return q.Queue.Publish(ctx, lane, &sent, done)
		}
	}
	return q.Queue.Publish(ctx, lane, env, done)
}
