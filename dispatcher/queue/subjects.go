package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// Names is the prefix of all streams and subjects. Two deployments on one NATS account need two
// prefixes. The zero value is DefaultNames.
type Names string

// DefaultNames is the prefix unless one is configured.
const DefaultNames Names = "carillon"

// Validate refuses a prefix that is not made of lower-case letters, digits and underscores.
func (n Names) Validate() error {
	if strings.Trim(string(n), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return fmt.Errorf("prefix %.40q: %w", string(n), errPrefix)
	}
	return nil
}

var errPrefix = errors.New("only lower-case letters, digits and _ may be in it")

// Or returns n, or DefaultNames for the zero value.
func (n Names) Or() Names {
	if n == "" {
		return DefaultNames
	}
	return n
}

// Stream returns the name of a lane's stream.
func (n Names) Stream(lane Lane) string { return string(n.Or()) + "_runs_" + strconv.Itoa(int(lane)) }

// Run returns the subject of a lane and priority: carillon.run.<lane>.<priority>.
func (n Names) Run(lane Lane, p schema.Priority) string {
	return string(n.Or()) + ".run." + strconv.Itoa(int(lane)) + "." + string(p.Or())
}

// RunOf returns the subject of a lane and priority for the executors of a pool:
// carillon.run.<lane>.<priority>.<pool>; of no pool it is Run.
func (n Names) RunOf(lane Lane, p schema.Priority, pool Pool) string {
	if pool == "" {
		return n.Run(lane, p)
	}
	return n.Run(lane, p) + "." + pool.token()
}

// Runs returns the subject filter of all of a lane's runs.
func (n Names) Runs(lane Lane) string {
	return string(n.Or()) + ".run." + strconv.Itoa(int(lane)) + ".>"
}

// Near returns the subject of near hints of a shard.
func (n Names) Near(s schema.Shard) string { return string(n.Or()) + ".near." + strconv.Itoa(int(s)) }

// Done returns the subject of notices of a shard.
func (n Names) Done(s schema.Shard) string { return string(n.Or()) + ".done." + strconv.Itoa(int(s)) }

// Signal returns the subject of a signal's topic.
func (n Names) Signal(topic string) string { return string(n.Or()) + ".signal." + topic }

// ConsumerName returns the name of the durable consumer of a priority in its lane's stream.
func ConsumerName(p schema.Priority) string { return "executors_" + string(p.Or()) }

// ConsumerOf returns the name of the durable consumer of a priority for the executors of a pool.
func ConsumerOf(p schema.Priority, pool Pool) string {
	if pool == "" {
		return ConsumerName(p)
	}
	return ConsumerName(p) + "_" + pool.token()
}

// Pool names the executors that have the same labels, by the text of those (schema.Labels.String);
// "": any executor. Each pool has subjects of its own, which its executors alone fetch from,
// besides those of messages for any. Nodes of a version without pools know none of them.
type Pool string

// token returns what stands for the pool in subjects and names of consumers, which hold neither
// dots nor spaces.
func (p Pool) token() string {
	sum := sha256.Sum256([]byte(p))
	return hex.EncodeToString(sum[:8])
}

// EventStream returns the name of the stream of events that clients publish on NATS.
func (n Names) EventStream() string { return string(n.Or()) + "_events" }

// Events returns the subject filter of all events.
func (n Names) Events() string { return string(n.Or()) + ".event.>" }

// eventDot stands for a dot in the tenant of an event's subject. No name holds it.
const eventDot = ":"

// Event returns the subject on which an event of a tenant is published:
// carillon.event.<tenant>.<name>, with a colon for each dot of the tenant. No two pairs of names share
// one. It returns "" for a name that no subject can hold: one that ends with a dot or has two beside
// each other.
func (n Names) Event(tenant, name string) string {
	if strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return ""
	}
	return string(n.Or()) + ".event." + strings.ReplaceAll(tenant, ".", eventDot) + "." + name
}

// ParseEvent is the inverse of Event.
func (n Names) ParseEvent(subject string) (tenant, name string, ok bool) {
	rest, ok := strings.CutPrefix(subject, string(n.Or())+".event.")
	if !ok {
		return "", "", false
	}
	tenant, name, ok = strings.Cut(rest, ".")
	return strings.ReplaceAll(tenant, eventDot, "."), name, ok && name != ""
}
