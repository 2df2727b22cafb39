package admission

import (
	"slices"
	"strconv"
	"strings"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// Request is what an attempt asks for.
type Request struct {
	target      targetKey
	Rank        int  // the rank of its priority
	targetLimit int  // attempts of its tenant at once; 0 = what the slots give
	hasBreaker  bool // it has a breaker
	Deferrals   int  // how often its start was deferred for the sake of its target

	Task      string // of its tenant …
	TaskLimit int    // … whose runs may be under way at once, so many in the whole cluster; 0 = any number
	Deferred  bool   // its entry is a deferral
	// TenantLimit is how many runs of its tenant may be under way at once in the whole cluster; 0 =
	// any number.
	TenantLimit int
	Waits       bool // an attempt is being stopped for it: it is not deferred since its target, or its tenant, is slow
}

// NewRequest returns the request of work of a tenant: its target, and what is known of that.
func NewRequest(tenant string, w *schema.Work, targets target.Set) Request {
	ask := Request{target: targetKey{tenant: tenant}}
	switch {
	case w.HTTP != nil:
		if ask.target.name, ask.hasBreaker = hostOf(w.HTTP.URL), true; w.HTTP.URLSecret != "" {
			ask.target.name = "url " + w.HTTP.URLSecret // no host has such a name
		}
	case w.NATS != nil: // no host has such a name, and no script
		ask.target.name, ask.hasBreaker = w.NATS.Subject, true
	case w.Script != nil:
		ask.target.name = "script " + w.Script.Command
		ask.targetLimit = targets.ScriptLimit(w.Script)
	case w.Lambda != nil:
		ask.target.name, ask.hasBreaker = "lambda "+w.Lambda.Region+" "+w.Lambda.Function, true
	case w.Email != nil:
		ask.target.name, ask.hasBreaker = mailServerOf(w.Email), true
	default:
		if kind, to := w.Message(); kind != "" {
			ask.target.name, ask.hasBreaker = messageTarget(w, kind, to), true
		}
	}
	return ask
}

// mailServerOf returns the name of the mail server that sends a mail.
func mailServerOf(t *schema.EmailTarget) string {
	if t.Server == nil {
		return "email"
	}
	s := t.Server.InForce()
	return "email " + strings.ToLower(s.Host) + ":" + strconv.Itoa(s.Port)
}

// messageTarget returns the name of what a message goes to. An event bus is one of a region, and
// what fails of Kafka is a cluster.
func messageTarget(w *schema.Work, kind, to string) string {
	switch {
	case w.EventBridge != nil:
		to = w.EventBridge.Region + " " + to
	case w.Kafka != nil:
		brokers := strings.Split(strings.ToLower(strings.Join(w.Kafka.Brokers, ",")), ",")
		slices.Sort(brokers)
		to = strings.Join(brokers, ",")
	}
	return kind + " " + to
}

// hostOf returns scheme, host and port of a URL that was found to be one, without allocating.
func hostOf(url string) string {
	at := strings.Index(url, "://")
	if at < 0 {
		return url
	}
	at += len("://")
	if end := strings.IndexAny(url[at:], "/?#"); end >= 0 {
		url = url[:at+end]
	}
	return strings.ToLower(url)
}
