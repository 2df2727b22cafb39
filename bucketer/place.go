package bucketer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// DueTime returns the id time, in whole ms, of an entry asked for `at` (zero = now) and taken in at
// now. `at` is rounded up, so that nothing starts before it. If `at` has passed, now is rounded
// down.
func DueTime(at, now time.Time) time.Time {
	if at.Before(now) {
		return now.Truncate(time.Millisecond)
	}
	return CeilMilli(at)
}

// CeilMilli rounds up to whole milliseconds.
func CeilMilli(t time.Time) time.Time {
	floor := t.Truncate(time.Millisecond)
	if floor.Before(t) {
		return floor.Add(time.Millisecond)
	}
	return floor
}

// keyedID returns the id of a keyed line with an instant. It is a function of tenant, key, instant
// and the shards alone, so the line sent again is the same row. Under another number of shards it is
// another row: chunk.look looks for it under each. The shard is one of keyedWays for each (tenant,
// bucket).
func keyedID(tenant, key string, at time.Time, among among) schema.EntryID {
	due := CeilMilli(at)
	hash := schema.HashOf(tenant, key, strconv.FormatInt(due.UnixMilli(), 10))
	way := hash % keyedWays
	bucket := strconv.FormatInt(int64(schema.BucketOf(due)), 10)
	return schema.MakeEntryID(due, among.shard(schema.HashOf(tenant, bucket, strconv.FormatUint(way, 10))), hash)
}

// among are the shards that one is drawn of: all below n, or those of a home.
type among struct {
	n    int
	home []schema.Shard // nil: there are no homes
}

// shard returns the one that a hash gives.
func (a among) shard(hash uint64) schema.Shard {
	if a.home != nil {
		return a.home[hash%uint64(len(a.home))]
	}
	return schema.Shard(hash % uint64(a.n)) // #nosec G115 -- positive, below MaxShards
}

// draw returns any.
func (a among) draw() schema.Shard {
	return a.nth(rand.IntN(a.count())) // #nosec G404 -- spread, not secrecy
}

// count returns how many there are.
func (a among) count() int {
	if a.home != nil {
		return len(a.home)
	}
	return a.n
}

// nth returns the i-th of them, from 0 on.
func (a among) nth(i int) schema.Shard {
	if a.home != nil {
		return a.home[i]
	}
	return schema.Shard(i) // #nosec G115 -- positive, below MaxShards
}

// chunkShards spreads the unkeyed rows of one chunk. Those of one bucket fill a batch of a random
// shard, and then go to the next shard for each spreadRows of them, round and round.
//
// Weights of tenants hold within a dispatcher. So they hold in the cluster only where each
// tenant's backlog lies on all dispatchers, by their shards.
type chunkShards struct {
	among
	turns map[schema.Bucket]*turn
}

// turn is the shard whose turn it is in a bucket, and how many more rows it takes.
type turn struct{ at, left int }

func (c *chunkShards) shard(b schema.Bucket) schema.Shard {
	t, ok := c.turns[b]
	switch {
	case !ok:
		t = &turn{rand.IntN(c.count()), BatchRows} // #nosec G404 -- spread, not secrecy
		c.turns[b] = t
	case t.left == 0:
		t.at, t.left = (t.at+1)%c.count(), spreadRows
	}
	t.left--
	return c.nth(t.at)
}

// Latest returns the latest of the instants.
func Latest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// Regions is which homes there are, and which of them our region serves. Nil, there are no regions:
// everything is served, and no method costs more than to see that.
//
// # Where new work lies
//
//	keyed, unique, waiting for other jobs,  at its tenant's home: what is decided once for a tenant
//	or of a task with a rate or a limit;    (keys, names, rates, limits) is decided by one region
//	jobs with many runs; events
//	other one-off jobs, the first of these that says something:
//	- the job asks for a home               there
//	- its task asks for one                 there
//	- a route has the host of its URL       there
//	- its tenant has a stated home          there
//	- else                                  at a home that our region serves, its own before others
//
// A shard keeps its home, so an id tells where the work on it is done. A job, or a task, may
// require its region: what lies elsewhere is refused, and while its home has failed over it waits.
type Regions struct {
	Region string // ours
	Homes  schema.Homes
	// Served returns in which epoch our region serves the home of a shard now, or a
	// schema.NotServedError. It does no I/O.
	Served func(shard schema.Shard) (epoch int64, err error)
	// Takes is Served for new work, which is also refused while a home is about to be moved; nil:
	// it is Served.
	Takes func(shard schema.Shard) (epoch int64, err error)
	// Routes are the operator's: the first that has the host of a job's URL says where it lies.
	Routes []Route
	// Everywhere has every region hold what is acknowledged with schema.DurableEverywhere; nil:
	// that cannot be had.
	Everywhere Everywhere
	// Durability returns that of what a tenant asks for without stating one; nil: home.
	Durability func(ctx context.Context, tenant string) (schema.Durability, error)
}

// Everywhere has every region hold rows (homes.Everywhere).
type Everywhere interface {
	// Ready returns a schema.NotEverywhereError while another region is known not to answer.
	Ready() error
	// Confirm returns nil once every region holds what stands of the rows, or a
	// schema.NotEverywhereError that says that they were written.
	Confirm(ctx context.Context, rows schema.Copies) error
	// ConfirmClaim is Confirm for the claim of a run, by the key of its lease. It is nil as well
	// where no other region can take the run's home over.
	ConfirmClaim(ctx context.Context, key string) error
}

// DurabilityOf returns the durability in force for what a tenant asks for: the one stated, or else
// the tenant's. Home is "" unless it was stated. The error is Faults if it cannot be had here.
func (r *Regions) DurabilityOf(ctx context.Context, tenant string, stated schema.Durability) (schema.Durability, error) {
	switch {
	case stated == schema.DurableHome, r == nil && stated == "":
		return stated, nil
	case r == nil || r.Everywhere == nil:
		if stated == "" {
			return "", nil
		}
		return "", Faults{NoRegions("body.durability")}
	case stated != "" || r.Durability == nil:
		return stated, nil
	}
	d, err := r.Durability(ctx, tenant)
	if err != nil {
		return "", fmt.Errorf("durability of tenant %s: %w", tenant, err)
	}
	if d == schema.DurableHome {
		d = ""
	}
	return d, nil
}

// NoRegions is the fault of a durability that a cluster without regions cannot give.
func NoRegions(location string) Fault {
	return Fault{
		Location: location, Value: string(schema.DurableEverywhere),
		Message: "cannot be had: this cluster has no regions (regions.homes of the configuration), so there is no other data centre to hold it; home is what it has",
	}
}

// Ready returns nil if what is to be held everywhere may be written, or a
// schema.NotEverywhereError.
func (r *Regions) Ready(everywhere bool) error {
	if !everywhere || r == nil || r.Everywhere == nil {
		return nil
	}
	return r.Everywhere.Ready()
}

// Confirm has every region hold what was written of rows, if they are to be held everywhere. It is
// asked between the write and the answer.
func (r *Regions) Confirm(ctx context.Context, everywhere bool, rows schema.Copies) error {
	if !everywhere || r == nil || r.Everywhere == nil {
		return nil
	}
	return r.Everywhere.Confirm(ctx, rows)
}

// ConfirmClaim has every region know of the claim of a run that is to be held everywhere.
func (r *Regions) ConfirmClaim(ctx context.Context, everywhere bool, run schema.RunID) error {
	if !everywhere || r == nil || r.Everywhere == nil {
		return nil
	}
	return r.Everywhere.ConfirmClaim(ctx, schema.RunLease(run))
}

// RegionsOf returns what a part knows of regions that is only told which one is ours, and which
// homes that serves; nil where served is, as there are none.
func RegionsOf(region string, served func(shard schema.Shard) (epoch int64, err error)) *Regions {
	if served == nil {
		return nil
	}
	return &Regions{Region: region, Served: served}
}

// HasExecutor reports whether an executor of that name belongs to our region: it ends in a dot and
// the region's name (ExecutorName).
func (r *Regions) HasExecutor(name string) bool {
	return r == nil || strings.HasSuffix(name, "."+r.Region)
}

// ExecutorName returns the name of the executor of a node. Its session is decided within its
// region, so no executor of another one may have that name. Nil: it is the node's.
func (r *Regions) ExecutorName(node string) string {
	if r.HasExecutor(node) {
		return node
	}
	return node + "." + r.Region
}

// Route is a home for calls to hosts.
type Route struct {
	Host string // a pattern as of path.Match, in small letters: "*.eu.example.com"
	Home string
}

// route returns the home of the first route that has the host of a URL; "": none has.
func (r *Regions) route(work *schema.Work) string {
	if len(r.Routes) == 0 || work == nil || work.HTTP == nil {
		return ""
	}
	u, err := url.Parse(work.HTTP.URL)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	for _, route := range r.Routes {
		if ok, err := path.Match(route.Host, host); ok && err == nil {
			return route.Home
		}
	}
	return ""
}

// choose returns where a job of a task is to lie: the shards of all that are alike can be shared.
// It has the job require its region where its task does. The error is Faults.
func (r *Regions) choose(job *Job, t *schema.Task) (homeOf, error) {
	of := homeOf{tenant: job.Tenant, region: job.Region, pinned: t.Rate != "" || t.MaxConcurrent > 0 || job.Key != "" || job.Unique != nil || job.After != nil}
	if r == nil {
		if job.RequireRegion && job.Region == "" {
			return of, Faults{{Location: "body.region", Message: noRegions}}
		}
		return of, r.asked(of.tenant, of.region, of.pinned)
	}
	if err := r.checkTask(t, job.Tenant, of.pinned); err != nil {
		return of, err
	}
	job.RequireRegion = job.RequireRegion || t.Region.Require
	if of.region == "" && !of.pinned {
		if of.region = t.Region.Name; of.region == "" {
			if of.region = r.route(job.Work); job.Work == nil {
				of.region = r.route(&t.Work)
			}
		}
	}
	return of, r.asked(of.tenant, job.Region, of.pinned)
}

// checkTask returns Faults if a task requires a region that is not the home of the tenant, and its
// work must lie there.
func (r *Regions) checkTask(t *schema.Task, tenant string, pinned bool) error {
	if r == nil || !pinned || !t.Region.Require || t.Region.Name == "" {
		return nil
	}
	if home, _ := r.Homes.OfTenant(tenant); t.Region.Name != home {
		return Faults{{Location: "body.task", Value: t.Name, Message: fmt.Sprintf("requires region %s, but this lies at %s, where the tenant is at home: what has many runs or a key, is unique, waits for others, or is of a task with a rate or a limit lies there", t.Region.Name, home)}}
	}
	return nil
}

// CheckChoice returns Faults if there is no such home for a task. Nil, there are no regions.
func (r *Regions) CheckChoice(c schema.RegionChoice) error {
	switch {
	case c == schema.RegionChoice{}:
		return nil
	case r == nil:
		return Faults{{Location: "body.region", Value: c.Name, Message: noRegions}}
	case c.Name != "" && len(r.Homes.Shards(c.Name, schema.MaxShards)) == 0:
		return Faults{{Location: "body.region", Value: c.Name, Message: r.noHome()}}
	}
	return nil
}

const noRegions = "cannot be had: this cluster has no regions"

func (r *Regions) noHome() string { return "is none: there are " + strings.Join(r.Homes.Names(), ", ") }

// confirmNew has every region hold an entry that is held here, how its job hears of those that it
// waits for, and its keys (those that are not ""), if they are to be held everywhere.
func (r *Regions) confirmNew(ctx context.Context, everywhere bool, e *schema.Entry, keys ...string) error {
	if !everywhere {
		return nil
	}
	rows := schema.Copies{Entries: []schema.EntryID{e.ID}}
	for _, key := range keys {
		if key != "" {
			rows.Keys = append(rows.Keys, schema.TenantName{Tenant: e.Spec.Tenant, Name: key})
		}
	}
	if e.Spec.Join != nil {
		rows.Subscriptions = follows(e)
	}
	return r.Confirm(ctx, true, rows)
}

// Serves returns nil while our region serves the home of a shard and takes work in for it.
// Otherwise it is a schema.NotServedError, and nothing is to be written.
func (r *Regions) Serves(shard schema.Shard) error {
	if r == nil {
		return nil
	}
	takes := r.Takes
	if takes == nil {
		takes = r.Served
	}
	_, err := takes(shard)
	return err
}

// ServesTenant returns nil while our region serves the home of a tenant. Otherwise it is a
// schema.NotServedError: what is decided for the whole tenant is decided there.
func (r *Regions) ServesTenant(tenant string) error {
	if r == nil {
		return nil
	}
	home, _ := r.Homes.OfTenant(tenant)
	_, err := r.at(home, schema.MaxShards)
	return err
}

// Acknowledges is asked between a write into a shard and its answer: it returns nil while our region
// serves the home. Otherwise the error is an ErrUnknown as well as a NotServedError: the region that
// serves the home next may not see what was written.
func (r *Regions) Acknowledges(shard schema.Shard) error {
	if r == nil {
		return nil
	}
	if _, err := r.Served(shard); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	}
	return nil
}

// asked are Faults if work of a tenant may not lie at the home that it asks for ("": it asks for none).
func (r *Regions) asked(tenant, region string, pinned bool) error {
	if region == "" {
		return nil
	}
	fault := Fault{Location: "body.region", Value: region}
	if r == nil {
		fault.Message = noRegions
		return Faults{fault}
	}
	home, _ := r.Homes.OfTenant(tenant)
	switch {
	case len(r.Homes.Shards(region, schema.MaxShards)) == 0:
		fault.Message = r.noHome()
	case pinned && region != home:
		fault.Message = "must be " + home + ", where the tenant is at home: a job with a key, one that is unique, one that waits for others, and one of a task with a rate or a limit lie there"
	default:
		return nil
	}
	return Faults{fault}
}

// place returns the shards below n that new work is drawn of, all of one home that our region
// serves: the one that it asks for, or else, if it is pinned, its tenant's. The error is a
// NotServedError.
func (r *Regions) place(of homeOf, n int) (among, error) {
	if r == nil {
		return among{n: n}, nil
	}
	home, stated := r.Homes.OfTenant(of.tenant)
	switch {
	case of.region != "":
		return r.at(of.region, n)
	case of.pinned, stated:
		return r.at(home, n)
	}
	a, err := r.at(r.Region, n)
	for _, home := range r.Homes.Names() {
		if err == nil {
			break
		}
		if other, otherErr := r.at(home, n); otherErr == nil {
			a, err = other, nil
		}
	}
	return a, err
}

// at returns the shards of a home, if our region serves it.
func (r *Regions) at(home string, n int) (among, error) {
	shards := r.Homes.Shards(home, n)
	if len(shards) == 0 {
		return among{}, fmt.Errorf("home %s has no shards below %d: %w", home, n, schema.ErrNotServed)
	}
	return among{n, shards}, r.Serves(shards[0])
}

// keyed returns the shards below n that the key of a tenant gives one of, whoever serves them.
func (r *Regions) keyed(tenant string, n int) among {
	if r == nil {
		return among{n: n}
	}
	home, _ := r.Homes.OfTenant(tenant)
	if shards := r.Homes.Shards(home, n); len(shards) > 0 {
		return among{n, shards}
	}
	return among{n: n}
}

// KeyedShard returns the shard below n that a hash gives for what lies at the home of a tenant, whoever
// serves that.
func (r *Regions) KeyedShard(tenant string, hash uint64, n int) schema.Shard {
	return r.keyed(tenant, n).shard(hash)
}

// checkAfter returns Faults if a one-off job waits for jobs that are at home elsewhere: what ends
// there does not reach it.
func (r *Regions) checkAfter(job *Job) error {
	if r == nil || job.After == nil {
		return nil
	}
	home, _ := r.Homes.OfTenant(job.Tenant)
	var faults Faults
	for i, u := range job.After.Jobs {
		if other, _ := r.Homes.Of(u.Job.Shard()); other != home {
			faults = append(faults, Fault{
				Location: fmt.Sprintf("body.after.jobs[%d]", i),
				Message:  fmt.Sprintf("is at home in %s: a job that waits for others is at home in %s, as its tenant is, and they must be too; give them an idempotency key", other, home),
			})
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Draw returns a shard below n for new work of a tenant that lies at its tenant's home.
func (r *Regions) Draw(tenant string, n int) (schema.Shard, error) {
	a, err := r.place(homeOf{tenant: tenant, pinned: true}, n)
	if err != nil {
		return 0, err
	}
	return a.draw(), nil
}
