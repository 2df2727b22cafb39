package deadletters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
)

const (
	// spreadAfter is after how many bytes of a day that a process has written it spreads the day.
	spreadAfter = 4 << 20
	// lookEvery is after how many bytes it looks whether another process has.
	lookEvery = 1 << 20
	// maxDays bounds the days of which bytes are counted. Beyond it all are forgotten.
	maxDays = 1024
	// markStays is how much longer a mark stays than the letters that it is written for, so that it
	// is not written again for each of them.
	markStays = 24 * time.Hour
	// never is when something leaves that has no expiry, for what compares expiries.
	never = 20 * 365 * 24 * time.Hour
	// readsAtOnce bounds the partitions of one call that are read at once.
	readsAtOnce = 8
)

var (
	errNoText  = errors.New("dead letter without the text of its entry")
	errManyIDs = fmt.Errorf("more than %d ids", MaxRows)
)

// Config is what a Store needs.
type Config struct {
	Table  Table
	Damage *damage.Log
	MaxRow int              // bytes of a letter, at most
	Now    func() time.Time // the clock by which letters leave
	// SpreadAfter is after how many bytes a day is spread; default 4 MiB.
	SpreadAfter int
}

// Store implements schema.DeadLetterStore, and CountDeadLetters of schema.DeadLetterIndex. Its
// methods may be called concurrently.
type Store struct {
	table       Table
	damage      *damage.Log
	maxRow      int
	now         func() time.Time
	spreadAfter int

	mu   sync.Mutex
	days map[schema.TenantDay]*fill // guarded by mu, as what they point to
}

// fill is what this process knows of a day.
type fill struct {
	bytes  int       // that it wrote
	looked int       // of them when it looked for the mark
	spread bool      // the mark is held …
	until  time.Time // … until then, as far as is known
}

// New returns a Store on a table.
func New(c Config) *Store {
	return &Store{
		table: c.Table, damage: c.Damage, maxRow: c.MaxRow, now: c.Now, spreadAfter: cmp.Or(c.SpreadAfter, spreadAfter),
		days: make(map[schema.TenantDay]*fill),
	}
}

// PutDeadLetters implements schema.DeadLetterStore. Letters of several partitions are written one
// partition after the other.
func (s *Store) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	order := make([]int, len(letters))
	for i := range order {
		order[i] = i
	}
	day := func(i int) schema.TenantDay {
		return schema.TenantDay{Tenant: letters[i].Tenant, Day: letters[i].Day()}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(strings.Compare(letters[i].Tenant, letters[j].Tenant), cmp.Compare(letters[i].Day(), letters[j].Day()))
	})
	for len(order) > 0 {
		n := 1
		for n < len(order) && day(order[0]) == day(order[n]) {
			n++
		}
		rows := make([]Row, n)
		for i, at := range order[:n] {
			var err error
			if rows[i], err = s.rowOf(&letters[at]); err != nil {
				return fmt.Errorf("put dead letter of %s: %w", letters[at].Run, err)
			}
		}
		if err := s.put(ctx, day(order[0]), rows); err != nil {
			return fmt.Errorf("put %d dead letters: %w", n, err)
		}
		order = order[n:]
	}
	return nil
}

func (s *Store) rowOf(l *schema.DeadLetter) (Row, error) {
	last, err := l.EncodeLast()
	if err != nil {
		return Row{}, err
	}
	row := Row{Run: l.Run, Text: l.Entry.Text(), Payload: l.Entry.Payload, Last: last, Written: l.Written, Expires: l.Expires}
	switch size := row.size(); {
	case len(row.Text) == 0:
		return Row{}, errNoText
	case size > s.maxRow:
		return Row{}, fmt.Errorf("%d bytes: %w", size, schema.ErrTooLarge)
	}
	return row, nil
}

// put writes the letters of a day.
func (s *Store) put(ctx context.Context, at schema.TenantDay, rows []Row) error {
	spread, err := s.spread(ctx, at, rows)
	if err != nil {
		return err
	}
	if !spread {
		return s.table.Put(ctx, firstOf(at), rows)
	}
	parts := make(map[Partition][]Row, 1)
	for i := range rows {
		p := partOf(at, rows[i].Run)
		parts[p] = append(parts[p], rows[i])
	}
	for p, of := range parts {
		if err := s.table.Put(ctx, p, of); err != nil {
			return err
		}
	}
	return nil
}

// PutResolution implements schema.DeadLetterStore.
func (s *Store) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	at := schema.TenantDay{Tenant: tenant, Day: schema.DeadLetterDay(run)}
	text, err := schema.EncodeResolution(&f)
	row := Row{Run: run, Resolution: text, Resolved: f.At.UnixMicro(), Expires: expires}
	var spread bool
	if err == nil {
		spread, err = s.spread(ctx, at, []Row{row})
	}
	if err == nil {
		p := firstOf(at)
		if spread {
			p = partOf(at, run)
		}
		err = s.table.Resolve(ctx, p, row)
	}
	if err != nil {
		return fmt.Errorf("put resolution of dead letter %s: %w", run, err)
	}
	return nil
}

// spread counts what is about to be written of a day, and reports whether it goes to the parts: the
// day is marked until all of it has left.
func (s *Store) spread(ctx context.Context, at schema.TenantDay, rows []Row) (bool, error) {
	bytes, expires := 0, time.Time{}
	for i := range rows {
		bytes += rows[i].size()
		until := rows[i].Expires
		if until.IsZero() {
			until = s.now().Add(never)
		}
		if until.After(expires) {
			expires = until
		}
	}
	known, look := s.count(at, bytes)
	switch {
	case known.spread && !expires.After(known.until):
		return true, nil
	case !known.spread && !look:
		return false, nil
	case !known.spread && known.bytes < s.spreadAfter:
		marked, err := s.marked(ctx, at)
		if err != nil {
			return false, err
		}
		if !marked {
			return false, nil
		}
	}
	until := expires.Add(markStays)
	// Of two marks the one that stays longer is the later write.
	mark := Row{Run: markRun, Resolution: markText, Resolved: until.UnixMicro(), Expires: until}
	if err := s.table.Resolve(ctx, firstOf(at), mark); err != nil {
		return false, fmt.Errorf("mark day %d as spread: %w", at.Day, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.day(at)
	if f.spread = true; until.After(f.until) {
		f.until = until
	}
	return true, nil
}

// count counts bytes of a day, and reports whether it is time to look for its mark.
func (s *Store) count(at schema.TenantDay, bytes int) (known fill, look bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.day(at)
	f.bytes += bytes
	if look = f.bytes-f.looked >= min(lookEvery, s.spreadAfter); look {
		f.looked = f.bytes
	}
	return *f, look
}

// day returns what is known of a day; the caller holds mu.
func (s *Store) day(at schema.TenantDay) *fill {
	f, ok := s.days[at]
	if !ok {
		if len(s.days) >= maxDays {
			clear(s.days)
		}
		f = new(fill)
		s.days[at] = f
	}
	return f
}

// marked reports whether a day is spread.
func (s *Store) marked(ctx context.Context, at schema.TenantDay) (bool, error) {
	rows, err := s.table.Rows(ctx, firstOf(at), []schema.RunID{markRun}, false)
	return slices.ContainsFunc(rows, isMark), err
}

func isMark(r Row) bool { return r.Run == markRun && r.Resolved != 0 }

// DeadLetter implements schema.DeadLetterStore.
func (s *Store) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	rows, err := s.rows(ctx, schema.TenantDay{Tenant: tenant, Day: schema.DeadLetterDay(run)}, []schema.RunID{run}, true)
	row, ok := rows[run]
	if err == nil && (!ok || row.Written == 0) {
		err = schema.ErrNotFound
	}
	if err != nil {
		return schema.DeadLetter{}, fmt.Errorf("read dead letter %s: %w", run, err)
	}
	return s.load(tenant, row), nil
}

func (s *Store) load(tenant string, r *Row) schema.DeadLetter {
	l := schema.LoadDeadLetter(tenant, r.Run, r.Text, r.Payload, r.Last, r.Resolution, r.Written)
	_ = s.damage.Found("dead_letters", r.Run.String(), l.Fault)
	return l
}

// rows returns the rows of runs of a day, merged.
func (s *Store) rows(ctx context.Context, at schema.TenantDay, runs []schema.RunID, whole bool) (map[schema.RunID]*Row, error) {
	found, err := s.table.Rows(ctx, firstOf(at), append(slices.Clone(runs), markRun), whole)
	if err != nil {
		return nil, err
	}
	all := make(map[schema.RunID]*Row, len(found))
	spread := false
	for i := range found {
		if isMark(found[i]) {
			spread = true
			continue
		}
		all[found[i].Run] = &found[i]
	}
	if !spread {
		return all, nil
	}
	parts := make(map[Partition][]schema.RunID, 1)
	for _, run := range runs {
		p := partOf(at, run)
		parts[p] = append(parts[p], run)
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for p, of := range parts {
		g.Go(func() error {
			found, err := s.table.Rows(ctx, p, of, whole)
			mu.Lock()
			defer mu.Unlock()
			for i := range found {
				if row, there := all[found[i].Run]; there {
					row.add(&found[i])
				} else {
					all[found[i].Run] = &found[i]
				}
			}
			return err
		})
	}
	return all, g.Wait()
}

// Resolutions implements schema.DeadLetterStore.
func (s *Store) Resolutions(ctx context.Context, tenant string, day int, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	all := make(map[schema.RunID]*schema.Resolution)
	if len(runs) == 0 {
		return all, nil
	}
	if len(runs) > MaxRows {
		return nil, fmt.Errorf("read resolutions: %d: %w", len(runs), errManyIDs)
	}
	rows, err := s.rows(ctx, schema.TenantDay{Tenant: tenant, Day: day}, runs, false)
	if err != nil {
		return nil, fmt.Errorf("read %d resolutions of day %d: %w", len(runs), day, err)
	}
	for run, r := range rows {
		if r.Written == 0 {
			continue
		}
		resolution, err := schema.DecodeResolution(r.Resolution)
		_ = s.damage.Found("dead_letters", run.String(), err)
		all[run] = resolution
	}
	return all, nil
}

// DeadLetters implements schema.DeadLetterStore.
func (s *Store) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	rows, err := s.newest(ctx, schema.TenantDay{Tenant: tenant, Day: day}, before, limit, true)
	if err != nil {
		return nil, fmt.Errorf("read dead letters of day %d: %w", day, err)
	}
	letters := make([]schema.DeadLetter, len(rows))
	for i := range rows {
		letters[i] = s.load(tenant, &rows[i])
	}
	return letters, nil
}

// CountDeadLetters implements schema.DeadLetterIndex.
func (s *Store) CountDeadLetters(ctx context.Context, at schema.TenantDay, limit int) (schema.DeadLetterCount, error) {
	rows, err := s.newest(ctx, at, schema.RunID{}, limit, false)
	if err != nil {
		return schema.DeadLetterCount{}, fmt.Errorf("count dead letters of day %d: %w", at.Day, err)
	}
	n := schema.DeadLetterCount{Looked: len(rows)}
	for i := range rows {
		if rows[i].Resolved == 0 {
			n.Waiting++
		}
	}
	return n, nil
}
