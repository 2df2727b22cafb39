package sim

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/sealed"
)

// keyring has the key that all nodes have for what tenants want encrypted.
var keyring = func() *admin.Keyring {
	k, err := admin.ParseKeyring([]string{"k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))})
	if err != nil {
		panic(err)
	}
	return k
}()

// tenantKnown is within what time every node knows what was changed of a tenant.
const tenantKnown = 10 * time.Second

// tenantStates reports whether the tenant of the scenario states anything.
func (s *Scenario) tenantStates() bool { return s.Encrypted || s.PerMinute > 0 || s.Retained }

// tenantsOf has a process reach the store by way of the seals, and returns what its executor knows
// of the tenants. Tenants are read only where the scenario's states something: an idle node makes
// no calls for them.
func (n *Node) tenantsOf(l *life, store schema.Store, now func() time.Time, log *slog.Logger) executor.Tenants {
	l.sealed = sealed.New(store, keyring, log)
	if n.c.states {
		l.tenants = admin.NewTenants(store, l.conn, now, l.living)
		l.sealed.Follow(l.tenants.EncryptsPayloads)
	}
	switch {
	case n.c.quota > 0:
		return quotaOf(n.c.quota)
	case l.tenants != nil:
		return l.tenants
	}
	return nil
}

// stateTenant states what the tenant wants from the beginning, while nothing goes wrong, and
// returns when every node knows.
func (w *world) stateTenant(ctx context.Context) error {
	if !w.s.tenantStates() {
		return nil
	}
	if err := w.putTenant(ctx, schema.Tenant{
		Name: tenant, EncryptPayloads: w.s.Encrypted && !w.s.EncryptedLater, Quotas: schema.Quotas{RunsPerMinute: w.s.PerMinute}, Retention: w.s.retainedFor(),
	}); err != nil {
		return err
	}
	time.Sleep(tenantKnown)
	if w.s.Encrypted && !w.s.EncryptedLater {
		w.sealsFrom = time.Now()
	}
	return nil
}

// putTenant asks one node after the other until one has put the tenant.
func (w *world) putTenant(ctx context.Context, t schema.Tenant) (err error) {
	for range askTries {
		if n, l := w.someNodeFor(t.Name); n != nil {
			if _, _, err = l.tenants.PutTenant(ctx, t); err == nil {
				return nil
			}
		}
		time.Sleep(askPause)
	}
	return err
}
