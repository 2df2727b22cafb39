// Package admin is what operators and tenants' owners keep beside jobs: tenants and their quotas,
// API keys, the keys that sign HTTP calls, the secrets that calls are made with, the audit log, and
// the counts of what was done.
//
// # What is authoritative
//
// The rows. A node remembers what it read for some seconds (refreshingCache), and forgets it at
// once when it gets the signal of a change.
//
//	what          read again after   never used after   signal
//	tenant        5 s                10 s               tenant
//	API key       4 s                 8 s               key
//	signing keys  5 s                10 s               signing
//	secret        5 s                10 s               secret
//
// # Invariants
//
//  1. A key that was revoked is refused on every node within 10 s, also if its signal is lost.
//  2. No API key is stored: the store has its SHA-256. Secrets that must be read again are sealed
//     with a key of the operator, for one tenant and one name (Keyring). Nothing answers them but
//     Signing.Secrets and Secrets.Values, which only executors call.
//  3. A rate quota is kept by each node for its share: quota / living nodes. Unused share of a rate
//     is good for one minute.
//  4. Audit never holds up what it notes. Entries that find no room are counted, and reported by an
//     entry.
//
// # If we crash
//
// Audit entries and uses of keys of the last fraction of a second are lost, and what was counted of
// uses of secrets since the last hour's entry. Everything else is one write, or one conditional
// write of one row.
//
// # Files
//
//	tenants.go             tenants, their quotas and their share of rates
//	keys.go                API keys: made, found, revoked
//	identity.go            who calls
//	signing.go, keyring.go keys that sign calls; how secrets are sealed
//	secrets.go, uses.go    secrets that calls are made with; how their uses are noted
//	audit.go               the audit log
//	stats.go, top.go       counts of each minute: of all runs, of a tenant, by name
//	upcoming.go, estimate.go   about how many runs are due in coming minutes
//	cache.go               what a node remembers for some seconds
package admin
