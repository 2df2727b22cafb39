package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

const (
	// tenantFresh and tenantAge are how long a tenant is not read again, and is used.
	tenantFresh = 5 * time.Second
	tenantAge   = 10 * time.Second
	// tenantCacheSize bounds the tenants kept in memory, and those whose use is measured.
	tenantCacheSize = 10_000
	// jobsAge is how long a count of jobs is believed while the quota is not reached, and jobsRetry
	// how long when it is.
	jobsAge   = 30 * time.Second
	jobsRetry = 5 * time.Second
)

// MaxWeight is the largest weight of a tenant.
const MaxWeight = 1000

// ErrQuota: a quota of the tenant is used up, and nothing was written (429). Errors of this kind
// are *QuotaError.
var ErrQuota = errors.New("the tenant's quota is used up")

// QuotaError says which quota is used up, and when to try again.
type QuotaError struct {
	Quota      string // as the API calls it
	Limit      int64
	RetryAfter time.Duration
}

// Error says which quota it is.
func (e *QuotaError) Error() string { return fmt.Sprintf("%v: %s is %d", ErrQuota, e.Quota, e.Limit) }

// Is reports whether target is ErrQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// tenantStore has the tenants, and registers of their changes.
type tenantStore interface {
	schema.TenantStore
	schema.LeaseStore
	schema.SettingsStore
	PutListening(ctx context.Context, name string, at time.Time) error
}

// Tenants answers for tenants, and bounds what they do by their quotas. Its methods may be called
// from any goroutine.
//
// Each node keeps its share of a quota that is a rate: quota / living bucketers. So a tenant that
// uses one of several nodes gets that node's share. Runs that schedules start are spread over the
// executors, and each executor keeps its share of them: quota / living executors. While nodes see
// different members, shares may add up to more than the quota. After a minute of rest a minute's
// share may be used at once.
type Tenants struct {
	store   tenantStore
	signals bucketer.Signaller
	now     func() time.Time
	nodes   func() int
	// executors tells how many executors share the runs that schedules start.
	executors func() int

	cache *refreshingCache[string, schema.Tenant]

	mu     sync.Mutex
	meters map[string]*meter
	jobs   map[string]jobCount
}

// jobCount is how many jobs a tenant had when they were counted, and how many were made here since.
type jobCount struct {
	jobs int
	at   time.Time
}

// NewTenants returns Tenants over store; nodes tells how many bucketers share the quotas.
func NewTenants(store tenantStore, signals bucketer.Signaller, now func() time.Time, nodes func() int) *Tenants {
	t := &Tenants{store: store, signals: signals, now: now, nodes: nodes, executors: nodes, meters: make(map[string]*meter), jobs: make(map[string]jobCount)}
	t.cache = newRefreshingCache(t.read, now, tenantFresh, tenantAge, tenantCacheSize)
	return t
}

// WithExecutors returns t, told how many executors share the runs that schedules start; before
// that, as many as bucketers share quotas. It is called before t is used.
func (t *Tenants) WithExecutors(executors func() int) *Tenants {
	t.executors = executors
	return t
}

// read reads a tenant; one without a row has the defaults.
func (t *Tenants) read(ctx context.Context, name string) (schema.Tenant, error) {
	tenant, err := t.store.Tenant(ctx, name)
	if errors.Is(err, schema.ErrNotFound) {
		tenant, err = schema.Tenant{Name: name}, nil
	}
	withDefaults(&tenant) // also where what is stored cannot be understood
	return tenant, err
}

// withDefaults fills in what is not stated of a tenant.
func withDefaults(tenant *schema.Tenant) {
	if tenant.Weight == 0 {
		tenant.Weight = schema.DefaultWeight
	}
}

// Tenant returns a tenant as the store has it. A tenant without a row has the defaults and no
// times.
func (t *Tenants) Tenant(ctx context.Context, name string) (schema.Tenant, error) {
	return t.read(ctx, name)
}

// Tenants returns at most limit tenants with a row and a name after `after`, in name order.
func (t *Tenants) Tenants(ctx context.Context, after string, limit int) ([]schema.Tenant, error) {
	tenants, err := t.store.Tenants(ctx, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	for i := range tenants {
		withDefaults(&tenants[i])
	}
	return tenants, nil
}

// PutTenant sets weight, quotas, durability and retention of a tenant, and tells every node. It
// returns the tenant as stored, and as it was.
func (t *Tenants) PutTenant(ctx context.Context, tenant schema.Tenant) (stored, was schema.Tenant, err error) {
	return t.PutTenantIf(ctx, tenant, nil)
}

// PutTenantIf is PutTenant of a tenant that must be as it was put at `seen` (zero: never; nil:
// any): else it is bucketer.ErrStale. Of two changes of one tenant that was seen, one is refused.
func (t *Tenants) PutTenantIf(ctx context.Context, tenant schema.Tenant, seen *time.Time) (stored, was schema.Tenant, err error) {
	if was, err = t.read(ctx, tenant.Name); err != nil {
		return stored, was, fmt.Errorf("put tenant %s: %w", tenant.Name, err)
	}
	var check func(time.Time) error
	if seen != nil {
		if !was.UpdatedAt.Equal(*seen) {
			return stored, was, fmt.Errorf("put tenant %s: %w", tenant.Name, bucketer.ErrStale)
		}
		check = lease.Unchanged(*seen, t.now(), bucketer.ErrStale)
	}
	tenant.UpdatedAt, err = lease.Stamp(ctx, t.store, "changed/tenant/"+tenant.Name, bucketer.StampAfter(t.now(), was.UpdatedAt), check)
	if err != nil {
		return stored, was, fmt.Errorf("put tenant %s: %w", tenant.Name, err)
	}
	if tenant.CreatedAt = was.CreatedAt; tenant.CreatedAt.IsZero() {
		tenant.CreatedAt = tenant.UpdatedAt
	}
	if tenant.Retention > 0 { // nodes read the retentions of those tenants alone
		if err := t.store.PutListening(ctx, schema.Keeping(tenant.Name), tenant.UpdatedAt); err != nil {
			return stored, was, fmt.Errorf("put tenant %s: %w", tenant.Name, err)
		}
	}
	if err := t.store.PutTenant(ctx, tenant); err != nil {
		return stored, was, fmt.Errorf("put tenant %s: %w", tenant.Name, err)
	}
	t.cache.forget(tenant.Name)
	t.signals.Signal(schema.TopicTenant, []byte(tenant.Name))
	return tenant, was, nil
}

// Weight returns the share of a tenant where tenants compete, as it was within the last 10 s.
func (t *Tenants) Weight(ctx context.Context, name string) (int, error) {
	tenant, err := t.cache.of(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("weight of tenant %s: %w", name, err)
	}
	return tenant.Weight, nil
}

// Durability returns that of what a tenant asks for without stating one, as it was within the last
// 10 s; "": it has none.
func (t *Tenants) Durability(ctx context.Context, name string) (schema.Durability, error) {
	tenant, err := t.cache.of(ctx, name)
	return tenant.Durability, err
}

// Retention returns for how many days a tenant keeps the history of its runs, as it was within the
// last 10 s; 0: as long as the cluster does.
func (t *Tenants) Retention(ctx context.Context, name string) (days int, err error) {
	tenant, err := t.cache.of(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("retention of tenant %s: %w", name, err)
	}
	return tenant.Retention, nil
}

// MaxRetention returns the most days for which a tenant may keep the history of its runs: those for
// which the cluster keeps it, rounded down; 0: less than one.
func (t *Tenants) MaxRetention(ctx context.Context) (days int, err error) {
	s, err := t.store.Settings(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the cluster's retention: %w", err)
	}
	return int(s.Retention / schema.RetentionDay), nil
}

// Concurrency returns how many runs of a tenant may be under way at once, as it was within the last
// 10 s; 0: any number.
func (t *Tenants) Concurrency(ctx context.Context, name string) (int, error) {
	tenant, err := t.cache.of(ctx, name)
	return tenant.Quotas.Concurrency, err
}

// AuditsCreations reports whether a tenant asks for audit entries of one-off jobs that are created,
// as it was within the last 10 s. Where that is not known, it is taken to.
func (t *Tenants) AuditsCreations(ctx context.Context, name string) bool {
	tenant, err := t.cache.of(ctx, name)
	return err != nil || tenant.Audit.Creations
}

// EncryptsPayloads reports whether a tenant asks for its payloads to be stored encrypted, as it was
// within the last 10 s.
func (t *Tenants) EncryptsPayloads(ctx context.Context, name string) (bool, error) {
	tenant, err := t.cache.of(ctx, name)
	return tenant.EncryptPayloads, err
}

// Changed forgets a tenant. body is that of a signal of topic "tenant".
func (t *Tenants) Changed(body []byte) { t.cache.forget(string(body)) }

// meter measures what a tenant uses of its share. Its limits follow the quota and the number of
// nodes.
type meter struct {
	share schema.Quotas // what the limiters are set to …
	other int           // … and starts is, in a minute

	runs, bytes, lines *rate.Limiter // nil = no bound
	starts             *rate.Limiter // of runs that schedules start
}

// meter returns the meter of a tenant that has quotas, set to its share of them.
func (t *Tenants) meter(name string, q schema.Quotas) *meter {
	nodes := max(t.nodes(), 1)
	share := schema.Quotas{
		RunsPerMinute:         ceilDiv(q.RunsPerMinute, nodes),
		ImportLinesPerSecond:  ceilDiv(q.ImportLinesPerSecond, nodes),
		PayloadBytesPerMinute: ceilDiv(q.PayloadBytesPerMinute, int64(nodes)),
	}
	other := ceilDiv(q.RunsPerMinute, max(t.executors(), 1))
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.meters[name]
	if m == nil {
		if len(t.meters) >= tenantCacheSize {
			clear(t.meters)
		}
		m = new(meter)
		t.meters[name] = m
	}
	if m.share != share || m.other != other {
		now := t.now()
		// A meter is replaced, not changed, except for its limiters: callers may be using the one
		// before.
		m = &meter{
			share: share, other: other,
			runs:   limited(m.runs, now, float64(share.RunsPerMinute)/60, share.RunsPerMinute),
			starts: limited(m.starts, now, float64(other)/60, other),
			// The burst lets any allowed payload pass, however small the share.
			bytes: limited(m.bytes, now, float64(share.PayloadBytesPerMinute)/60, int(max(share.PayloadBytesPerMinute, schema.MaxPayload))),
			lines: limited(m.lines, now, float64(share.ImportLinesPerSecond), share.ImportLinesPerSecond),
		}
		t.meters[name] = m
	}
	return m
}

func ceilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }

// limited returns a limiter of perSecond a second: l changed, or a full one if there was none. It
// returns nil if there is no bound now.
func limited(l *rate.Limiter, now time.Time, perSecond float64, burst int) *rate.Limiter {
	switch {
	case perSecond == 0:
		return nil
	case l == nil:
		return rate.NewLimiter(rate.Limit(perSecond), burst)
	}
	l.SetLimitAt(now, rate.Limit(perSecond))
	l.SetBurstAt(now, burst)
	return l
}

// AdmitRun takes one run with so many bytes of payload out of the tenant's quotas, or takes nothing
// and answers a *QuotaError. A run that is refused later, or was known already, has used the quota.
func (t *Tenants) AdmitRun(ctx context.Context, tenant string, bytes int) error {
	known, err := t.cache.of(ctx, tenant)
	q := known.Quotas
	if err != nil || q.RunsPerMinute == 0 && q.PayloadBytesPerMinute == 0 {
		return err
	}
	m, now := t.meter(tenant, q), t.now()
	run, wait := take(m.runs, now, 1)
	if wait > 0 {
		return &QuotaError{"runs_per_minute", int64(q.RunsPerMinute), wait}
	}
	if _, wait := take(m.bytes, now, bytes); wait > 0 {
		if run != nil {
			run.CancelAt(now)
		}
		return &QuotaError{"payload_bytes_per_minute", q.PayloadBytesPerMinute, wait}
	}
	if m.starts != nil {
		m.starts.AllowN(now, 1) // what schedules start here has it no more
	}
	return nil
}

// AdmitScheduled takes a run that its schedule starts out of the tenant's quota of runs a minute.
// If there is none left it takes nothing, and returns how long it takes until one more may start
// after another; 0: it was taken, or there is no quota. What is taken here, requests to this node
// have no more.
func (t *Tenants) AdmitScheduled(ctx context.Context, tenant string) (apart time.Duration, err error) {
	known, err := t.cache.of(ctx, tenant)
	if err != nil || known.Quotas.RunsPerMinute == 0 {
		return 0, err
	}
	m, now := t.meter(tenant, known.Quotas), t.now()
	if _, wait := take(m.starts, now, 1); wait > 0 {
		return max(time.Duration(float64(time.Second)/float64(m.starts.Limit())), 1), nil
	}
	m.runs.AllowN(now, 1)
	return 0, nil
}

// RunsLeft returns how many runs, at most `most`, the tenant may start now. If it is 0, wait says
// how long until the next one.
func (t *Tenants) RunsLeft(ctx context.Context, tenant string, most int) (n int, wait time.Duration, err error) {
	known, err := t.cache.of(ctx, tenant)
	if err != nil || known.Quotas.RunsPerMinute == 0 {
		return most, 0, err
	}
	runs := t.meter(tenant, known.Quotas).runs
	left := runs.TokensAt(t.now())
	if left < 1 {
		return 0, time.Duration((1 - left) / float64(runs.Limit()) * float64(time.Second)), nil
	}
	return min(int(left), most), 0, nil
}

// TakeRuns takes n runs out of the tenant's quota. If fewer are left, it takes the next ones too.
func (t *Tenants) TakeRuns(ctx context.Context, tenant string, n int) error {
	known, err := t.cache.of(ctx, tenant)
	if err != nil || known.Quotas.RunsPerMinute == 0 {
		return err
	}
	runs := t.meter(tenant, known.Quotas).runs
	runs.ReserveN(t.now(), min(n, runs.Burst()))
	return nil
}

// AdmitJob admits one more job that can have many runs, or answers a *QuotaError. count counts the
// tenant's jobs, and may stop at most. It is called only if there is a quota, and seldom: for half
// a minute other nodes' jobs, and jobs that have ended, are not seen.
func (t *Tenants) AdmitJob(ctx context.Context, tenant string, count func(ctx context.Context, most int) (int, error)) error {
	known, err := t.cache.of(ctx, tenant)
	quota := known.Quotas.Jobs
	if err != nil || quota == 0 {
		return err
	}
	now := t.now()
	t.mu.Lock()
	c, ok := t.jobs[tenant]
	t.mu.Unlock()
	age := now.Sub(c.at)
	if !ok || age >= jobsAge || c.jobs >= quota && age >= jobsRetry {
		jobs, err := count(ctx, quota)
		if err != nil {
			return fmt.Errorf("count jobs: %w", err)
		}
		t.mu.Lock()
		if len(t.jobs) >= tenantCacheSize {
			clear(t.jobs)
		}
		t.jobs[tenant] = jobCount{jobs, now}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.jobs[tenant]; c.jobs >= quota {
		return &QuotaError{"jobs", int64(quota), max(jobsRetry-now.Sub(c.at), time.Second)}
	}
	c.jobs++
	t.jobs[tenant] = c
	return nil
}

// AdmitLine takes one line of an import out of the tenant's quota, or takes nothing and says how
// long to wait for the next one.
func (t *Tenants) AdmitLine(ctx context.Context, tenant string) (wait time.Duration, err error) {
	known, err := t.cache.of(ctx, tenant)
	if err != nil || known.Quotas.ImportLinesPerSecond == 0 {
		return 0, err
	}
	_, wait = take(t.meter(tenant, known.Quotas).lines, t.now(), 1)
	return wait, nil
}

// take takes n out of a limiter, or says how long to wait until n are there.
func take(l *rate.Limiter, now time.Time, n int) (taken *rate.Reservation, wait time.Duration) {
	if l == nil {
		return nil, 0
	}
	taken = l.ReserveN(now, n)
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
	}
	return taken, wait
}
