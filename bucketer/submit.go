package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// KeyRetention is how long an idempotency key without a stated instant is kept.
const KeyRetention = 24 * time.Hour

// registrationsAtOnce bounds the keys of one chunk that are being registered.
const registrationsAtOnce = 16

// Submit takes one job in. Nil means that the job is durable and will run. After ErrUnknown or
// ErrUnavailable it cannot be promised, and may run nevertheless.
func (b *Bucketer) Submit(ctx context.Context, job Job) (Receipt, error) {
	now := b.now()
	s, err := b.InForce()
	if err != nil {
		b.metrics.refused.WithLabelValues("not_ready").Inc()
		return Receipt{}, err
	}
	of, err := b.checkTask(ctx, &job)
	if err != nil {
		return Receipt{}, err
	}
	home, err := b.regions.place(of, s.Shards)
	if err == nil {
		err = b.regions.checkAfter(&job)
	}
	if err != nil {
		return Receipt{}, err
	}
	if job.After != nil {
		if err := b.NoteDependents(ctx, job.Tenant); err != nil {
			return Receipt{}, err
		}
		now = b.now()
	}
	due := DueTime(job.At, now)
	e, err := b.EntryOf(&job, schema.MakeEntryID(due, home.draw(), schema.RandomHash()), now)
	if err != nil {
		return Receipt{}, err
	}
	if err := b.TakeRoom(&e); err != nil {
		return Receipt{}, err // before its key is registered
	}
	if err := b.follow(ctx, &e); err != nil {
		return Receipt{}, err
	}
	switch {
	case job.Unique != nil:
		return submitUnique(ctx, b, &job, e, now)
	case job.Key != "":
		return b.SubmitKeyed(ctx, &job, e, now)
	}
	return Receipt{Run: e.ID, Everywhere: e.Spec.Everywhere}, b.WriteNew(ctx, e)
}

// WriteNew writes an entry as WriteOne does, for somebody who is told that it stands: while our
// region serves its home, and once every region holds it, if it says so. The error may be a
// schema.NotServedError; if it is an ErrUnknown as well, the lease on the home ended meanwhile, and
// the entry may be there. It may be a schema.NotEverywhereError, of which the same holds.
func (b *Bucketer) WriteNew(ctx context.Context, e schema.Entry) error {
	if b.regions == nil {
		return b.WriteOne(ctx, e)
	}
	if err := b.regions.Ready(e.Spec.Everywhere); err != nil {
		return err
	}
	return writeNew(ctx, b, e)
}

// writeNew is WriteNew for somebody who knows that others may hold it. They are to hold its keys as
// well, those that are not "".
func writeNew(ctx context.Context, b *Bucketer, e schema.Entry, keys ...string) error {
	err := b.regions.Serves(e.ID.Shard())
	if err == nil {
		err = b.WriteOne(ctx, e)
	}
	if err == nil {
		err = b.regions.confirmNew(ctx, e.Spec.Everywhere, &e, keys...)
	}
	if err == nil {
		err = b.regions.Acknowledges(e.ID.Shard())
	}
	return err
}

// follow has a job hear of the ends of the jobs that it runs after. Its row comes later: what has
// ended by then, its own entry finds.
func (b *Bucketer) follow(ctx context.Context, e *schema.Entry) error {
	if e.Spec.Join == nil {
		return nil
	}
	for _, s := range follows(e) {
		if err := b.store.PutSubscription(ctx, s); err != nil {
			return fmt.Errorf("follow %s: %w", s.Event, err)
		}
	}
	return nil
}

// follows returns by what a job hears of the ends of those that it runs after.
func follows(e *schema.Entry) (all []schema.Subscription) {
	for _, u := range e.Spec.Join.Jobs {
		all = append(all, schema.Subscription{
			Tenant: e.Spec.Tenant, Event: schema.EndOf(u.Job), Subscriber: schema.EntryID(schema.JobOf(e.ID)), Written: time.UnixMicro(e.Spec.Accepted), Expires: e.Expires,
		})
	}
	return all
}

// HasRoom counts e into its partition, and reports whether it fits.
func (b *Bucketer) HasRoom(e *schema.Entry) bool { return b.fill.take(e.ID.Partition(), e.Size()) }

// TakeRoom counts e into its partition, or refuses it with ErrPartitionFull.
func (b *Bucketer) TakeRoom(e *schema.Entry) error {
	if b.HasRoom(e) {
		return nil
	}
	b.metrics.refused.WithLabelValues("partition_full").Inc()
	return ErrPartitionFull
}

// SubmitKeyed registers the key before it writes the row. If the key is registered already, it
// looks for the recorded row and writes it if it is not there: we may have crashed between key and
// row. A row that is there is left alone, because it may have been cancelled or moved.
func (b *Bucketer) SubmitKeyed(ctx context.Context, job *Job, e schema.Entry, now time.Time) (Receipt, error) {
	err := b.regions.Serves(e.ID.Shard())
	if err == nil {
		err = b.regions.Ready(e.Spec.Everywhere)
	}
	if err != nil {
		return Receipt{}, err
	}
	record := schema.KeyRecord{BodyHash: job.BodyHash, Entry: e.ID, Text: e.Text(), Payload: e.Payload, Expires: e.Expires}
	held, mine, err := b.store.RegisterKey(ctx, job.Tenant, job.Key, record, Latest(now.Add(KeyRetention), job.KeyUntil))
	switch {
	case err != nil:
		return Receipt{}, fmt.Errorf("register key: %w", err)
	case mine:
		return Receipt{Run: e.ID, Everywhere: e.Spec.Everywhere}, writeNew(ctx, b, e, job.Key)
	}
	b.fill.give(e.ID.Partition(), e.Size())
	if held.BodyHash != job.BodyHash {
		return Receipt{}, ErrKeyReused
	}
	return known(ctx, b, &held, now, e.Spec.Everywhere, job.Key)
}

// SubmitBatch takes up to MaxChunk jobs in. answer is called exactly once for each of them, in any
// order, from any goroutine, before SubmitBatch returns. A job that fails does not stop the others.
//
//	line                     cost
//	unkeyed                  a share of a batch
//	keyed, with instant      a share of a batch and of a read
//	keyed, without instant   a conditional write, and a batch
//	unique                   a conditional write, and a batch; with a key, a read and two such writes
func (b *Bucketer) SubmitBatch(ctx context.Context, jobs []Job, answer func(i int, r Receipt, err error)) {
	now := b.now()
	s, err := b.InForce()
	if err == nil && len(jobs) > MaxChunk {
		err = fmt.Errorf("%w: %d jobs in one chunk, at most %d", ErrOverloaded, len(jobs), MaxChunk)
	}
	if err != nil {
		reason := "not_ready"
		if errors.Is(err, ErrOverloaded) {
			reason = "overloaded"
		}
		b.metrics.refused.WithLabelValues(reason).Add(float64(len(jobs)))
		for i := range jobs {
			answer(i, Receipt{}, err)
		}
		return
	}

	c := chunk{
		b: b, now: now, settings: s, jobs: jobs, answer: answer,
		homes: make(map[homeOf]*chunkShards, 1),
	}
	c.sort(ctx)
	var wg sync.WaitGroup
	if len(c.toRegister) > 0 {
		wg.Go(func() { c.register(ctx) })
	}
	if len(c.keyed) > 0 {
		c.look(ctx)
	}
	b.Write(ctx, c.entries, func(k int, err error) {
		if err == nil && c.entries[k].Spec.Everywhere {
			c.holds(c.index[k], &c.entries[k], false)
			return
		}
		if err == nil {
			err = b.regions.Acknowledges(c.entries[k].ID.Shard())
		}
		if err != nil {
			answer(c.index[k], Receipt{}, err)
			return
		}
		answer(c.index[k], Receipt{Run: c.entries[k].ID}, nil)
	})
	c.confirm(ctx)
	wg.Wait()
	// A line that repeats an earlier one of the chunk is rare. It is submitted once the earlier row
	// is held, finds that row, and is answered like it.
	for _, i := range c.repeats {
		b.SubmitBatch(ctx, jobs[i:i+1], func(_ int, r Receipt, err error) { answer(i, r, err) })
	}
}

// chunk is one SubmitBatch under way.
type chunk struct {
	b        *Bucketer
	now      time.Time
	settings *schema.Settings
	jobs     []Job
	answer   func(int, Receipt, error)
	homes    map[homeOf]*chunkShards
	last     homeOf       // the one that was asked for last …
	shards   *chunkShards // … and its shards

	entries    []schema.Entry // rows to write …
	index      []int          // … and the jobs that they are of
	keyed      []int          // jobs with key and instant
	toRegister []int          // jobs with key and no instant, and unique ones
	repeats    []int          // jobs whose key and instant stand in this chunk already

	mu   sync.Mutex
	here []heldHere // what every region is to hold; guarded by mu
}

// heldHere is a row of a job that our region holds, and the others are to hold before it is
// answered.
type heldHere struct {
	i        int // the job
	row      *schema.Entry
	existing bool
}

// holds notes such a row.
func (c *chunk) holds(i int, row *schema.Entry, existing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here = append(c.here, heldHere{i, row, existing})
}

// confirm has every region hold the rows that were noted, by partition, and answers their jobs.
func (c *chunk) confirm(ctx context.Context) {
	if len(c.here) == 0 {
		return
	}
	var g errgroup.Group
	g.SetLimit(lookupsAtOnce)
	for _, rows := range ByPartition(c.here, func(h heldHere) schema.EntryID { return h.row.ID }) {
		g.Go(func() error {
			var copies schema.Copies
			for _, h := range rows {
				copies.Entries = append(copies.Entries, h.row.ID)
			}
			err := c.b.regions.Confirm(ctx, true, copies)
			for _, h := range rows {
				r, err := Receipt{Run: h.row.ID, Existing: h.existing, Everywhere: true}, err
				if err == nil {
					err = c.b.regions.Acknowledges(h.row.ID.Shard())
				}
				if err != nil && !h.existing {
					r = Receipt{}
				}
				c.answer(h.i, r, err)
			}
			return nil
		})
	}
	_ = g.Wait() // each job was answered
}

// sort makes the rows of the unkeyed jobs and sets the others apart.
func (c *chunk) sort(ctx context.Context) {
	type keyAt struct {
		tenant, key string
		at          int64
	}
	seen := make(map[keyAt]bool)
	for i := range c.jobs {
		job := &c.jobs[i]
		of, err := c.b.checkTask(ctx, job)
		var shards *chunkShards
		if err == nil && job.Key == "" && job.Unique == nil {
			shards, err = c.shardsFor(of)
		}
		if err != nil {
			c.answer(i, Receipt{}, err)
			continue
		}
		switch {
		case job.Unique != nil:
			c.toRegister = append(c.toRegister, i)
		case job.Key == "":
			due := DueTime(job.At, c.now)
			c.add(i, schema.MakeEntryID(due, shards.shard(schema.BucketOf(due)), schema.RandomHash()))
		case job.At.IsZero():
			c.toRegister = append(c.toRegister, i)
		default:
			k := keyAt{job.Tenant, job.Key, CeilMilli(job.At).UnixMilli()}
			if seen[k] {
				c.repeats = append(c.repeats, i)
				continue
			}
			seen[k] = true
			c.keyed = append(c.keyed, i)
		}
	}
}

// homeOf is what says where a one-off job lies. Unkeyed rows of one share their shards: without
// regions all do.
type homeOf struct {
	tenant, region string
	pinned         bool
}

// shardsFor returns the shards that unkeyed rows share.
func (c *chunk) shardsFor(of homeOf) (*chunkShards, error) {
	if c.b.regions == nil {
		of = homeOf{}
	}
	if c.shards != nil && c.last == of {
		return c.shards, nil
	}
	shards, ok := c.homes[of]
	if !ok {
		home, err := c.b.regions.place(of, c.settings.Shards)
		if err != nil {
			return nil, err
		}
		shards = &chunkShards{among: home, turns: make(map[schema.Bucket]*turn)}
		c.homes[of] = shards
	}
	c.last, c.shards = of, shards
	return shards, nil
}

// add makes the row of job i under id, unless it does not fit its partition.
func (c *chunk) add(i int, id schema.EntryID) {
	e, err := c.b.EntryOf(&c.jobs[i], id, c.now)
	if err == nil {
		err = c.b.regions.Serves(id.Shard())
	}
	if err == nil {
		err = c.b.regions.Ready(e.Spec.Everywhere)
	}
	if err == nil {
		err = c.b.TakeRoom(&e)
	}
	if err != nil {
		c.answer(i, Receipt{}, err)
		return
	}
	c.entries, c.index = append(c.entries, e), append(c.index, i)
}

// register submits the jobs that are registered, each by itself.
func (c *chunk) register(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(registrationsAtOnce)
	for _, i := range c.toRegister {
		g.Go(func() error {
			r, err := c.b.Submit(ctx, c.jobs[i])
			c.answer(i, r, err)
			return nil
		})
	}
	_ = g.Wait() // each job was answered
}

// look finds the keyed jobs that have a row already, under today's number of shards or one of the
// last day's, and answers them. The others get a row.
func (c *chunk) look(ctx context.Context) {
	places := []int{c.settings.Shards}
	for _, h := range c.settings.History {
		if h.Until.Add(KeyRetention).After(c.now) {
			places = append(places, h.Shards)
		}
	}
	if c.b.regions != nil {
		c.keyed = slices.DeleteFunc(c.keyed, func(i int) bool {
			err := c.b.regions.Serves(c.keyedID(i, c.settings.Shards).Shard())
			if err != nil {
				c.answer(i, Receipt{}, err)
			}
			return err != nil
		})
	}
	ids := make(map[schema.Partition][]schema.EntryID)
	for _, i := range c.keyed {
		for _, shards := range places {
			id := c.keyedID(i, shards)
			ids[id.Partition()] = append(ids[id.Partition()], id)
		}
	}
	for _, list := range ids {
		c.b.metrics.keysChecked.Add(float64((len(list) + ReadIDs - 1) / ReadIDs))
	}
	rows, failed := c.b.find(ctx, ids)
	var existing []schema.Entry
	var whose []int
	for _, i := range c.keyed {
		job := &c.jobs[i]
		var err error
		var found *schema.Entry
		for _, shards := range places {
			id := c.keyedID(i, shards)
			err = errors.Join(err, failed[id.Partition()])
			if e, ok := rows[id]; ok && found == nil {
				found = &e
			}
		}
		switch {
		case found != nil && found.Spec.BodyHash != job.BodyHash:
			c.answer(i, Receipt{}, ErrKeyReused)
		case found != nil:
			existing, whose = append(existing, *found), append(whose, i)
		case err != nil:
			c.answer(i, Receipt{}, err)
		default:
			c.add(i, c.keyedID(i, c.settings.Shards))
		}
	}
	c.b.checkLateRows(ctx, existing, func(k int, err error) {
		if err == nil && (existing[k].Spec.Everywhere || c.jobs[whose[k]].Durability == schema.DurableEverywhere) {
			c.holds(whose[k], &existing[k], true)
			return
		}
		if err == nil {
			err = c.b.regions.Acknowledges(existing[k].ID.Shard())
		}
		c.answer(whose[k], Receipt{Run: existing[k].ID, Existing: true}, err)
	})
}

// keyedID returns the id of keyed job i under that number of shards.
func (c *chunk) keyedID(i, shards int) schema.EntryID {
	job := &c.jobs[i]
	return keyedID(job.Tenant, job.Key, job.At, c.b.regions.keyed(job.Tenant, shards))
}
