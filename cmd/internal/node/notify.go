package node

import (
	"fmt"

	"carillon.dev/carillon/bucketer/deadletters"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// newNotifier returns what notifies tenants. A tenant belongs to the dispatcher that owns its shard.
func newNotifier(n *Node) *notifications.Notifier {
	return notifications.New(notifications.Config{
		Bucketer: n.bucketer.Bucketer, Store: n.sealed, Rules: n.bucketer.NotificationRules(), Logger: n.log.With("part", "notifications"),
		Owns: ownsNow(n),
	})
}

// newLetterCounter returns what counts the dead letters that wait. Tenants are shared as by
// newNotifier.
func newLetterCounter(n *Node) *deadletters.Counter {
	return deadletters.New(deadletters.Config{
		Bucketer: n.bucketer.Bucketer, Store: n.sealed, Owns: ownsNow(n), Retention: n.cfg.DeadLetters.Retention,
		Logger: n.log.With("part", "dead letters"), Registerer: n.reg,
	})
}

// ownsNow returns a func that reports, without I/O, whether this node's dispatcher owns a shard
// now.
func ownsNow(n *Node) func(schema.Shard) bool {
	takes := n.regions.takes()
	return func(shard schema.Shard) bool {
		if takes != nil {
			if _, err := takes(shard); err != nil {
				return false
			}
		}
		owner, ok := n.ring.Snapshot().Owner(shard)
		return ok && owner.Name == n.cfg.Node.Name
	}
}

// mailServer returns the operator's mail server; without an address there is none.
func mailServer(c config.Email) (target.MailServer, error) {
	roots, err := c.Roots()
	if err != nil {
		return target.MailServer{}, fmt.Errorf("email.ca: %w", err)
	}
	return target.MailServer{
		Address: c.Server, TLS: c.TLS, Roots: roots, Username: c.Username, Password: c.Password, From: c.From, Recipients: c.Recipients,
	}, nil
}
