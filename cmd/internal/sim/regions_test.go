package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

// regionNames are the regions, and the homes that they serve at first.
var regionNames = []string{"eu", "us"}

// The tenants of one-off jobs. Everything else is of the first one.
const (
	tenant      = "default"
	otherTenant = "other"
)

// regions are what the regions of a cluster share, who serves which home by true time, and what was
// done for homes. Nil: there are none, and its methods say so.
type regions struct {
	c        *Cluster
	homes    schema.Homes
	register *embedded.Store // the log of epochs. It is linearised, as SERIAL with a witness is

	mu   sync.Mutex
	log  map[string][]epochAt // by home, in order
	read map[*life]lastRead   // the last read of the epochs that was answered
	most map[string]int64     // by home: the latest epoch in which anything was done for it
	done map[string]int       // how often each act was seen, by its name
}

// epochAt is an epoch, and since when it could be read.
type epochAt struct {
	schema.Epoch
	since time.Time
}

// lastRead is what a process was told of who serves the homes.
type lastRead struct {
	sent, answered time.Time
	by             map[string]string // the regions, by home
}

// newRegions gives each region a home of its own, with half of the shards, and each tenant a home.
// tenants holds the homes that are stated.
func newRegions(c *Cluster, tenants map[string]string) (*regions, error) {
	half := schema.Shard(c.shards / 2) // #nosec G115 -- a few
	all, err := schema.NewHomes([]schema.Home{
		{Name: regionNames[0], Shards: []schema.ShardRange{{First: 0, Last: half - 1}}},
		{Name: regionNames[1], Shards: []schema.ShardRange{{First: half, Last: schema.Shard(c.shards) - 1}}}, // #nosec G115 -- a few
	})
	if err == nil {
		all, err = all.WithTenants(tenants)
	}
	if err != nil {
		return nil, err
	}
	r := &regions{c: c, homes: all, log: make(map[string][]epochAt), read: make(map[*life]lastRead), most: make(map[string]int64), done: make(map[string]int)}
	if r.register, err = embedded.Open(embedded.Config{Shards: 1}); err != nil {
		return nil, err
	}
	join(c.sites[0], c.sites[1])
	for _, name := range regionNames {
		if err := r.move(name, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *regions) close() error {
	if r == nil {
		return nil
	}
	return r.register.Close()
}

// move writes the next epoch of a home, as an operator does.
func (r *regions) move(home, to string) error {
	ctx := context.Background()
	newest, err := r.register.Epochs(ctx, []string{home})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := r.register.InsertEpoch(ctx, newest[0].Next(to, "sim", "a scenario", time.Now()))
	if err != nil {
		return err
	}
	r.log[home] = append(r.log[home], epochAt{e, time.Now()})
	return nil
}

// servedBy returns the region of the newest epoch of a home.
func (r *regions) servedBy(home string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log[home]
	return log[len(log)-1].Region
}

// register is the log of epochs as a process reaches it.
type register struct {
	schema.EpochStore
	r *regions
	n *Node
	l *life
}

// Most reads take part of a second; some take longer than the process waits.
const (
	registerTakes = 150 * time.Millisecond
	registerHangs = 4 * time.Second
	hangsOften    = 0.03
)

// reach waits for as long as a call takes one way, and fails if its region is apart.
func (e register) reach(ctx context.Context) error {
	e.n.pause(e.l.dead)
	c := e.n.c
	c.mu.Lock()
	takes := time.Duration(c.rng.Float64() * float64(registerTakes))
	if c.rng.Float64() < hangsOften {
		takes = time.Duration(c.rng.Float64() * float64(registerHangs))
	}
	apart := e.n.at.apart
	refuses := c.rng.IntN(2) == 0
	c.mu.Unlock()
	if apart && !refuses {
		takes = time.Hour
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err())
	case <-e.l.dead:
		return schema.ErrUnavailable
	}
	if apart {
		return schema.ErrUnavailable
	}
	return nil
}

// around does a call, which takes its time both ways.
func (e register) around(ctx context.Context, call func() error) error {
	if err := e.reach(ctx); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return e.reach(ctx)
}

// Epochs implements schema.EpochStore.
func (e register) Epochs(ctx context.Context, of []string) (newest []schema.Epoch, err error) {
	sent := time.Now()
	err = e.around(ctx, func() error {
		newest, err = e.EpochStore.Epochs(ctx, of)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	told := lastRead{sent, time.Now(), make(map[string]string)}
	for i := range newest {
		told.by[newest[i].Home] = newest[i].Region
	}
	e.r.read[e.l] = told
	return newest, nil
}

// Beats implements schema.EpochStore.
func (e register) Beats(ctx context.Context) (beats []schema.Beat, err error) {
	err = e.around(ctx, func() error {
		beats, err = e.EpochStore.Beats(ctx)
		return err
	})
	return beats, err
}

// PutBeat implements schema.EpochStore.
func (e register) PutBeat(ctx context.Context, b schema.Beat) error {
	return e.around(ctx, func() error { return e.EpochStore.PutBeat(ctx, b) })
}

// guard returns the store that a process writes to: with regions, one that writes conditionally
// only for homes that its region serves. The keeper is nil without regions.
func (r *regions) guard(n *Node, l *life, s schema.Store, now func() time.Time) (schema.Store, *homes.Keeper, error) {
	if r == nil {
		return s, nil, nil
	}
	k, err := homes.New(homes.Config{
		Region: n.at.region, Node: n.name, Homes: r.homes, Store: register{r.register, r, n, l}, Now: now, Logger: n.c.log.With("node", n.name, "life", l.number),
	})
	if err != nil {
		return nil, nil, err
	}
	guarded := k.Guard(deciding{s, r, n, l})
	return guarded, k, nil
}

// intake is what the bucketer of a process knows of regions.
func (r *regions) intake(n *Node, k *homes.Keeper) *bucketer.Regions {
	if r == nil {
		return nil
	}
	return &bucketer.Regions{Region: n.at.region, Homes: r.homes, Served: k.Served}
}

// served is what dispatcher and executor ask.
func served(k *homes.Keeper) func(schema.Shard) (int64, error) {
	if k == nil {
		return nil
	}
	return k.Served
}

// deciding notes the conditional writes of a process, as its guard lets them through.
type deciding struct {
	schema.Store
	r *regions
	n *Node
	l *life
}

// SwapLease implements schema.LeaseStore. The holder of a run may always end or release it.
func (d deciding) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if of, ok := strings.CutPrefix(is.Key, "run/"); ok && is.Holder != nil {
		if run, err := schema.ParseEntryID(of); err == nil {
			d.r.acts(d.n, d.l, run.Shard(), "claim", 0)
		}
	}
	return d.Store.SwapLease(ctx, was, is, expires)
}

// CancelRun implements schema.MarkStore.
func (d deciding) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (schema.Marks, error) {
	d.r.acts(d.n, d.l, id.Shard(), "cancel", 0)
	return d.Store.CancelRun(ctx, id, asRead, mark, expires)
}

// MoveRun implements schema.MarkStore.
func (d deciding) MoveRun(ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time) (schema.Marks, error) {
	d.r.acts(d.n, d.l, id.Shard(), "move", 0)
	return d.Store.MoveRun(ctx, id, asRead, to, expires)
}

// CreateJob implements schema.JobStore.
func (d deciding) CreateJob(ctx context.Context, j schema.Job) error {
	d.r.acts(d.n, d.l, j.ID.Shard(), "change of a job", 0)
	return d.Store.CreateJob(ctx, j)
}

// SwapJob implements schema.JobStore.
func (d deciding) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	d.r.acts(d.n, d.l, j.ID.Shard(), "change of a job", 0)
	return d.Store.SwapJob(ctx, was, j)
}

// RegisterKey implements schema.KeyStore.
func (d deciding) RegisterKey(ctx context.Context, of, key string, claim schema.KeyRecord, expires time.Time) (schema.KeyRecord, bool, error) {
	home, _ := d.r.homes.OfTenant(of)
	d.r.acts(d.n, d.l, d.r.homes.Shards(home, d.r.c.shards)[0], "key", 0)
	return d.Store.RegisterKey(ctx, of, key, claim, expires)
}

// acts judges, at the instant in which a process does something for the home of a shard, whether
// its region may: by what was read and written, and by true time. epoch is the one that it states,
// 0: none.
//
//   - The process asked within HomeLeaseLife who serves the home, and was answered that its region
//     does.
//   - Its region serves the home by the newest epoch, and if another did before, TakeOverWait has
//     passed; or it did by an epoch before, and the newest has stood for less than HomeLeaseLife.
//   - Nothing was done in a later epoch. So no two regions act for a home in turn.
func (r *regions) acts(n *Node, l *life, shard schema.Shard, what string, epoch int64) {
	if r == nil {
		return
	}
	select {
	case <-l.dead:
		return // nothing of it arrives anywhere
	default:
	}
	home, _ := r.homes.Of(shard)
	if wrong := r.wrong(n, l, home, what, epoch); wrong != "" {
		r.c.fault("%s of home %s by %s at %s: %s", what, home, n.name, time.Now().Format(clockTime), wrong)
	}
}

// slewed is how much longer than it says a lease of HomeLeaseLife may be where clocks are slewed:
// then the monotonic clock itself is wrong.
func (r *regions) slewed() time.Duration {
	if !r.c.slews {
		return 0
	}
	return schema.HomeLeaseLife / 12 // slewRate
}

func (r *regions) wrong(n *Node, l *life, home, what string, stated int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[what]++
	now, slack := time.Now(), r.slewed()
	read := r.read[l]
	if ago := now.Sub(read.sent); read.sent.IsZero() || ago > schema.HomeLeaseLife+slack {
		return fmt.Sprintf("it has asked who serves the home %v ago", ago)
	}
	if by := read.by[home]; by != n.at.region && now.After(read.answered) {
		return fmt.Sprintf("it was told %v ago that %s serves the home", now.Sub(read.answered), by)
	}
	log := r.log[home]
	at := len(log) - 1
	for at >= 0 && log[at].Region != n.at.region {
		at--
	}
	if at < 0 {
		return "its region has never served the home"
	}
	if stated != 0 && (stated > int64(len(log)) || log[stated-1].Region != n.at.region) {
		return fmt.Sprintf("epoch %d is not one of its region", stated)
	}
	e := log[at]
	if at+1 < len(log) {
		if past := now.Sub(log[at+1].since); past > schema.HomeLeaseLife+slack {
			return fmt.Sprintf("epoch %d has been over for %v", e.Number, past)
		}
	}
	first := at // the epochs in a row that are its region's
	for first > 0 && log[first-1].Region == n.at.region {
		first--
	}
	if since := now.Sub(log[first].since); first > 0 && since < schema.TakeOverWait-slack {
		return fmt.Sprintf("epoch %d stands for %v only, and %s served before", e.Number, since, log[first-1].Region)
	}
	if later := r.most[home]; later > e.Number {
		return fmt.Sprintf("something was done in epoch %d already, and it acts by epoch %d", later, e.Number)
	}
	r.most[home] = e.Number
	return ""
}
