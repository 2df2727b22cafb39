package tally

import (
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// Kept is how many names of a kind are told of one minute and node, each for itself. There are more
// tenants, because each tenant may ask for its own counts.
var Kept = map[schema.StatsKind]int{schema.ByTenant: 500, schema.ByTask: 50, schema.ByJob: 50, schema.ByHost: 50}

// maxHost bounds the name of a host, bytes.
const maxHost = 255

// Key says by which names a run is counted.
type Key struct {
	Tenant  string
	Task    string       // "": it states its work itself
	Job     schema.JobID // zero: it is one of a one-off job
	JobName string
	URL     string // of an HTTP call; "": another call, or not known
}

// KeyOf returns the key of runs with that spec, which call that URL ("": not known).
func KeyOf(spec *schema.Spec, url string) Key {
	return Key{Tenant: spec.Tenant, Task: spec.Task, Job: spec.Job, JobName: spec.JobName, URL: url}
}

// Lot are entries of one key that were handed to executors for the first time.
type Lot struct {
	Key
	Due int64
}

type hostName struct{ tenant, host string }

// Tally counts. Its methods may be called concurrently; a nil Tally counts nothing.
type Tally struct {
	mu      sync.Mutex
	tenants board[string]
	tasks   board[schema.TaskName]
	jobs    board[schema.JobID]
	hosts   board[hostName]
	metrics tenantMetrics
}

// New returns a Tally that has counted nothing.
func New() *Tally {
	t := &Tally{
		tenants: newBoard[string](), tasks: newBoard[schema.TaskName](), jobs: newBoard[schema.JobID](), hosts: newBoard[hostName](),
		metrics: tenantMetrics{named: make(map[string]*namedTenant)},
	}
	t.tenants.keep = t.metrics.has
	return t
}

// Due counts lots.
func (t *Tally) Due(lots []Lot) {
	if t == nil || len(lots) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range lots {
		t.add(&lots[i].Key, &schema.Counts{Due: lots[i].Due}, "")
	}
}

// Missed counts runs of a key that were recorded as missed for a reason before an executor was asked.
func (t *Tally) Missed(k Key, reason string, runs int64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var c schema.Counts
	c.Miss(reason, runs)
	t.add(&k, &c, "")
}

// add adds counts to those of the names of a key, and notes why the last of them failed ("": none
// did); mu is held.
func (t *Tally) add(k *Key, c *schema.Counts, failed string) {
	if len(failed) > schema.MaxLastError { // so that the rest of a long text is not kept
		failed = strings.Clone(strings.ToValidUTF8(failed[:schema.MaxLastError], ""))
	}
	cell, fresh := t.tenants.of(k.Tenant)
	if fresh {
		cell.Tenant = k.Tenant
	}
	cell.Add(c)
	if k.Task != "" {
		if cell, fresh = t.tasks.of(schema.TaskName{Tenant: k.Tenant, Name: k.Task}); fresh {
			cell.Tenant, cell.Name = k.Tenant, k.Task
		}
		addTo(cell, c, failed)
	}
	if !k.Job.IsZero() {
		if cell, fresh = t.jobs.of(k.Job); fresh {
			cell.Tenant, cell.Name, cell.Job = k.Tenant, k.JobName, k.Job
		}
		addTo(cell, c, failed)
	}
	if host := HostOf(k.URL); host != "" {
		at := hostName{k.Tenant, host}
		if cell = t.hosts.cells[at]; cell == nil {
			at.host = strings.Clone(host) // the URL may be long
			cell, _ = t.hosts.of(at)
			cell.Tenant, cell.Name = at.tenant, at.host
		}
		addTo(cell, c, failed)
	}
}

func addTo(cell *schema.NameCounts, c *schema.Counts, failed string) {
	cell.Add(c)
	if failed != "" {
		cell.LastError = failed
	}
}

// HostOf returns host and port of a URL that was found to be one, in lower case, without allocating
// if it is so already; "": it has none.
func HostOf(url string) string {
	at := strings.Index(url, "://")
	if at < 0 {
		return ""
	}
	host := url[at+len("://"):]
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:] // a password is no name
	return strings.ToLower(host[:min(len(host), maxHost)])
}

// Batch is a lot of runs that are counted under one lock. It belongs to one goroutine, from Begin to
// End, in which nothing else is done.
type Batch struct {
	t   *Tally
	key Key
	sum schema.Counts // of runs of key that are not added yet
	any bool          // there are some
	err string        // why the last of them that failed did
}

// Begin begins a batch. Nobody else counts until End.
func (t *Tally) Begin() Batch {
	if t != nil {
		t.mu.Lock()
	}
	return Batch{t: t}
}

// Start counts the first start of a run that was so late.
func (b *Batch) Start(k *Key, late time.Duration) {
	if b.t != nil {
		b.of(k).Start(late)
	}
}

// Ended counts what a record says of how an attempt ended, or that nothing started.
func (b *Batch) Ended(k *Key, rec *schema.Record) {
	if b.t == nil {
		return
	}
	c := b.of(k)
	failed := c.Failed
	if c.End(rec); c.Failed > failed && rec.Error != "" {
		b.err = rec.Error
	}
}

// of returns where to count runs of a key.
func (b *Batch) of(k *Key) *schema.Counts {
	if !b.any || b.key != *k {
		b.flush()
		b.key, b.any = *k, true
	}
	return &b.sum
}

func (b *Batch) flush() {
	if b.any {
		b.t.add(&b.key, &b.sum, b.err)
		b.sum, b.any, b.err = schema.Counts{}, false, ""
	}
}

// End ends the batch.
func (b *Batch) End() {
	if b.t != nil {
		b.flush()
		b.t.mu.Unlock()
	}
}

// Names returns what was counted of a kind since the last Take, the heaviest names first. Minute and
// node are the caller's to fill in.
func (t *Tally) Names(kind schema.StatsKind) schema.NameStats {
	var s schema.NameStats
	if t != nil {
		t.mu.Lock()
		s = t.copied(kind)
		t.mu.Unlock()
		bound(&s, Kept[kind])
	}
	s.Kind = kind
	return s
}

// Take returns what Names returns, of each kind of which something was counted, and begins anew.
func (t *Tally) Take() (all []schema.NameStats) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	for _, kind := range schema.StatsKinds {
		s := t.copied(kind)
		s.Kind = kind
		all = append(all, s)
	}
	t.metrics.turn(&t.tenants)
	t.tenants.reset()
	t.tasks.reset()
	t.jobs.reset()
	t.hosts.reset()
	t.mu.Unlock()
	some := all[:0]
	for i := range all {
		if len(all[i].Names) > 0 {
			bound(&all[i], Kept[all[i].Kind])
			some = append(some, all[i])
		}
	}
	return some
}

// copied returns what was counted of a kind, in no order; mu is held.
func (t *Tally) copied(kind schema.StatsKind) schema.NameStats {
	switch kind {
	case schema.ByTenant:
		return t.tenants.copied()
	case schema.ByTask:
		return t.tasks.copied()
	case schema.ByJob:
		return t.jobs.copied()
	case schema.ByHost:
		return t.hosts.copied()
	}
	return schema.NameStats{}
}
