package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/loadtest/check"
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
	c         *Cluster
	homes     schema.Homes
	requires  func(line int) bool // whether a one-off job requires its region; nil: none does
	automatic bool                // silent regions are failed over by themselves
	prompt    bool                // no read of the epochs hangs
	register  *embedded.Store     // the log of epochs. It is linearised, as SERIAL with a witness is

	mu   sync.Mutex
	log  map[string][]epochAt // by home, in order
	said map[string][]epochAt // by home: epochs whose end was announced, in order
	read map[*life]lastRead   // the last read of the epochs that was answered
	told map[*life]lastTold   // when reads of the beats were sent that were answered
	beat map[string]time.Time // the last sign of life of each region
	// listened and whole say when a process read the beats last, and since when without a gap.
	listened, whole map[*life]time.Time
	most            map[string]int64 // by home: the latest epoch in which anything was done for it
	done            map[string]int   // how often each act was seen, by its name
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
	number         map[string]int64  // the epochs, by home
}

// lastTold says when a process last asked what is announced, by home and by the epoch that it was told.
type lastTold map[string]map[int64]time.Time

// before returns when it last asked and was told of no epoch from that one on.
func (t lastTold) before(home string, epoch int64) (last time.Time) {
	for announced, sent := range t[home] {
		if announced < epoch && sent.After(last) {
			last = sent
		}
	}
	return last
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
	r := &regions{c: c, homes: all, log: make(map[string][]epochAt), said: make(map[string][]epochAt), read: make(map[*life]lastRead), told: make(map[*life]lastTold), beat: make(map[string]time.Time), listened: make(map[*life]time.Time), whole: make(map[*life]time.Time), most: make(map[string]int64), done: make(map[string]int)}
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

// announce announces the end of the epoch of a home, and drains it for that long, as an operator does.
func (r *regions) announce(home, to string, drain time.Duration) error {
	ctx := context.Background()
	newest, err := r.register.Epochs(ctx, []string{home})
	if err != nil {
		return err
	}
	ends := newest[0]
	if drain > 0 {
		return r.register.PutBeat(ctx, schema.Beat{
			Region: schema.DrainRow(home), Count: ends.Number, At: time.Now(),
			Drain: &schema.Drain{Home: home, Epoch: ends.Number, To: to, For: schema.Duration(drain)},
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said[home] = append(r.said[home], epochAt{ends, time.Now()})
	return r.register.PutBeat(ctx, schema.Announcement(ends))
}

// announced returns since when the end of an epoch of a home is announced, or that of a later one; false:
// it is not. The caller holds mu.
func (r *regions) announced(home string, epoch int64) (time.Time, bool) {
	for _, e := range r.said[home] {
		if e.Number >= epoch {
			return e.since, true
		}
	}
	return time.Time{}, false
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
	if c.rng.Float64() < hangsOften && !e.r.prompt {
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
	told := lastRead{sent, time.Now(), make(map[string]string), make(map[string]int64)}
	for i := range newest {
		told.by[newest[i].Home], told.number[newest[i].Home] = newest[i].Region, newest[i].Number
	}
	e.r.read[e.l] = told
	return newest, nil
}

// Beats implements schema.EpochStore.
func (e register) Beats(ctx context.Context) (beats []schema.Beat, err error) {
	sent := time.Now()
	err = e.around(ctx, func() error {
		beats, err = e.EpochStore.Beats(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if last, ok := e.r.listened[e.l]; !ok || time.Since(last) > schema.HomeLeaseLife+2*registerHangs {
		e.r.whole[e.l] = time.Now()
	}
	e.r.listened[e.l] = time.Now()
	told := e.r.told[e.l]
	if told == nil {
		told = make(lastTold)
		e.r.told[e.l] = told
	}
	for _, home := range regionNames {
		epoch := int64(0)
		for i := range beats {
			if beats[i].Region == schema.AnnounceRow(home) {
				epoch = beats[i].Count
			}
		}
		if told[home] == nil {
			told[home] = make(map[int64]time.Time)
		}
		told[home][epoch] = sent
	}
	return beats, nil
}

// InsertEpoch implements schema.EpochStore: a process fails a home over by itself. That is at fault if
// the region before gave a sign of life within homes.AutomaticAfter, or the process did not read all the
// time.
func (e register) InsertEpoch(ctx context.Context, next schema.Epoch) (stands schema.Epoch, err error) {
	err = e.around(ctx, func() error {
		e.r.mu.Lock()
		defer e.r.mu.Unlock()
		if stands, err = e.EpochStore.InsertEpoch(ctx, next); err != nil {
			return err
		}
		now, log := time.Now(), e.r.log[next.Home]
		if lost := log[len(log)-1].Region; now.Sub(e.r.beat[lost]) < homes.AutomaticAfter-e.r.slewed() {
			e.r.c.fault("%s fails home %s over at %s, and region %s gave a sign of life %v before", e.n.name, next.Home, now.Format(clockTime), lost, now.Sub(e.r.beat[lost]))
		}
		if whole := now.Sub(e.r.whole[e.l]); whole < homes.AutomaticAfter-e.r.slewed() {
			e.r.c.fault("%s fails home %s over at %s, and has read without a gap for %v only", e.n.name, next.Home, now.Format(clockTime), whole)
		}
		e.r.log[next.Home] = append(log, epochAt{stands, now})
		e.r.done["fail-over"]++
		return nil
	})
	return stands, err
}

// PutBeat implements schema.EpochStore.
func (e register) PutBeat(ctx context.Context, b schema.Beat) error {
	return e.around(ctx, func() error {
		e.r.mu.Lock()
		defer e.r.mu.Unlock()
		e.r.beat[b.Region] = time.Now()
		return e.EpochStore.PutBeat(ctx, b)
	})
}

// guard returns the store that a process writes to: with regions, one that writes conditionally
// only for homes that its region serves. The keeper is nil without regions.
func (r *regions) guard(n *Node, l *life, s schema.Store, now func() time.Time) (schema.Store, *homes.Keeper, error) {
	if r == nil {
		return s, nil, nil
	}
	k, err := homes.New(homes.Config{
		Region: n.at.region, Node: n.name, Homes: r.homes, Automatic: r.automatic, Store: register{r.register, r, n, l}, Now: now, Logger: n.c.log.With("node", n.name, "life", l.number),
	})
	if err != nil {
		return nil, nil, err
	}
	guarded := k.Guard(deciding{s, r, n, l})
	return guarded, k, nil
}

// intake is what the bucketer of a process knows of regions.
func (r *regions) intake(n *Node, k *homes.Keeper, all *homes.Everywhere) *bucketer.Regions {
	if r == nil {
		return nil
	}
	return &bucketer.Regions{Region: n.at.region, Homes: r.homes, Served: k.Served, Takes: k.Takes, Everywhere: all}
}

// claims is what the executor has every region know claims by.
func claims(all *homes.Everywhere) executor.Everywhere {
	if all == nil {
		return nil
	}
	return all
}

// takes is what the dispatcher asks.
func takes(k *homes.Keeper) func(schema.Shard) (int64, error) {
	if k == nil {
		return nil
	}
	return k.Takes
}

// served is what the executor asks.
func served(k *homes.Keeper) func(schema.Shard) (int64, error) {
	if k == nil {
		return nil
	}
	return k.Served
}

// servedLimit is what the executor asks of limits.
func servedLimit(k *homes.Keeper) func(schema.LimitKey) (string, int64, error) {
	if k == nil {
		return nil
	}
	return k.ServedLimit
}

// homeOf is what tells the executor the home of a shard.
func (r *regions) homeOf() func(schema.Shard) string {
	if r == nil {
		return nil
	}
	return func(shard schema.Shard) string {
		home, _ := r.homes.Of(shard)
		return home
	}
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

// CreateJobs implements schema.JobBatchStore.
func (d deciding) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	for i := range jobs {
		d.r.acts(d.n, d.l, jobs[i].ID.Shard(), "change of a job", 0)
	}
	return d.Store.CreateJobs(ctx, jobs)
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
//     does; within ShortLeaseLife, unless it also asked within HomeLeaseLife whether the end of the
//     epoch is announced, and was told that it is not.
//   - Its region serves the home by the newest epoch, and if another did before, TakeOverWait has
//     passed; or it did by an epoch before, and the newest has stood for less than HomeLeaseLife.
//     Where the end of the epoch before was announced TakeOverWait and HomeLeaseLife ago, it is
//     ShortTakeOverWait and ShortLeaseLife.
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

// required judges a call: one of a job that requires its region is made by the region that its home
// is called after.
func (r *regions) required(n *Node, call *target.Call) {
	if r == nil || r.requires == nil {
		return
	}
	ref, _ := check.ParseRef(call.Work.HTTP.URL)
	if home, _ := r.homes.Of(call.Run.Shard()); ref.Source == "sim" && r.requires(ref.Line) && home != n.at.region {
		r.c.fault("%s of region %s calls run %s, which requires region %s", n.name, n.at.region, call.Run, home)
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
	ago, told := now.Sub(read.sent), now.Sub(r.told[l].before(home, read.number[home]))
	if told > schema.HomeLeaseLife+slack && ago > schema.ShortLeaseLife+slack {
		return fmt.Sprintf("it has asked who serves the home %v ago, and was told %v ago that the end of the epoch was not announced", ago, told)
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
		past, most := now.Sub(log[at+1].since), schema.HomeLeaseLife
		if said, ok := r.announced(home, e.Number); ok {
			most = min(most, max(schema.ShortLeaseLife, said.Add(schema.HomeLeaseLife).Sub(log[at+1].since)))
		}
		if past > most+slack {
			return fmt.Sprintf("epoch %d has been over for %v", e.Number, past)
		}
	}
	first := at // the epochs in a row that are its region's
	for first > 0 && log[first-1].Region == n.at.region {
		first--
	}
	least := schema.TakeOverWait
	if first > 0 {
		if said, ok := r.announced(home, log[first].Number-1); ok {
			least = min(least, max(schema.ShortTakeOverWait, said.Add(schema.TakeOverWait).Sub(log[first].since)))
		}
	}
	if since := now.Sub(log[first].since); first > 0 && since < least-slack {
		return fmt.Sprintf("epoch %d stands for %v only, and %s served before", e.Number, since, log[first-1].Region)
	}
	if later := r.most[home]; later > e.Number {
		return fmt.Sprintf("something was done in epoch %d already, and it acts by epoch %d", later, e.Number)
	}
	r.most[home] = e.Number
	return ""
}
