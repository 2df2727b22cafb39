package executor

import (
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
)

// servedBy is which region serves the one home that there is.
type servedBy struct {
	mu     sync.Mutex
	epoch  int64
	region string
}

func (s *servedBy) serve(epoch int64, region string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.region = epoch, region
}

// of has an executor belong to a region.
func (s *servedBy) of(region string) func(*Config) {
	served := func() (int64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.region == region {
			return s.epoch, nil
		}
		now := time.Now()
		return 0, &schema.NotServedError{
			Home: "h", Asked: region, Now: now,
			Lease: schema.HomeLease{Epoch: schema.Epoch{Home: "h", Number: s.epoch, Region: s.region}, Read: now},
		}
	}
	return func(c *Config) {
		c.Region, c.Served = region, func(schema.Shard) (int64, error) { return served() }
		c.ServedLimit = func(schema.LimitKey) (string, int64, error) {
			epoch, err := served()
			return "h", epoch, err
		}
	}
}

// TestSlotsOfAHomeThatIsLostAreReleased: an executor whose region lost the home of a limit writes
// nothing of it. Its slots are free for the next region once it uses none, and not before.
func TestSlotsOfAHomeThatIsLostAreReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var s servedBy
		s.serve(1, "eu")
		w.begin("x1", s.of("eu"))
		us := inproc.New(inproc.Config{}) // each region has a queue of its own
		defer us.Close()
		queues := map[string]*inproc.Conn{"eu": w.conn, "us": us.Connect("test")}
		serve := func(epoch int64, region string) {
			s.serve(epoch, region)
			w.conn = queues[region]
		}
		w.begin("x2", s.of("us"), func(c *Config) { c.Queue = us.Connect("x2") })
		w.limit(2)
		end := w.lasts()
		var runs []schema.RunID
		// more has two more runs due. Of all runs so many are to have begun after that time.
		more := func(when string, want int) {
			t.Helper()
			runs = append(runs, w.runs(2, inAWhile(time.Second), 0)...)
			w.dispatch(30 * time.Second)
			if n := len(w.started()); n != want {
				t.Fatalf("%s: %d runs have begun, want %d", when, n, want)
			}
		}
		finish := func(i int) {
			end(runs[i])
			w.dispatch(30 * time.Second)
		}
		more("eu serves the home", 2)

		serve(2, "us")
		more("us serves it, and both slots are in use in eu", 2)
		finish(0)
		if n := len(w.started()); n != 2 {
			t.Fatalf("one slot is still in use in eu: %d runs have begun, want 2", n)
		}
		if is, _ := w.inner.Session(t.Context(), "x1"); len(is.Released) != 0 {
			t.Errorf("one slot is still in use in eu: released are %v, want none", is.Released)
		}
		finish(1)
		if n := len(w.started()); n != 4 {
			t.Fatalf("none is in use in eu: %d runs have begun, want the next two as well", n)
		}
		if is, err := w.inner.Session(t.Context(), "x1"); err != nil || is.Released["h"] != 2 {
			t.Errorf("none is in use in eu: released are %v, %v; want what was taken before epoch 2", is.Released, err)
		}

		serve(3, "eu")
		more("eu serves it again, and both slots are in use in us", 4)
		finish(2)
		finish(3)
		if n := len(w.started()); n != 6 {
			t.Fatalf("none is in use in us: %d runs have begun, want 6", n)
		}
		more("what eu has now it did not release", 6)
		for i := 4; i < len(runs); i++ {
			finish(i)
		}
		if s := w.taskSlots(); len(s.Blocks) != 0 || len(w.started()) != len(runs) {
			t.Errorf("in the end %d of %d runs have begun, and %+v are taken; want all, and none", len(w.started()), len(runs), s.Blocks)
		}
	})
}

// TestSlotsThatWereGivenBackLastAreReleased: an executor gave its slots back just before its region
// lost their home, and the next region has the lease as it was before. Its slots are free all the
// same, once its session says so.
func TestSlotsThatWereGivenBackLastAreReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var s servedBy
		s.serve(1, "eu")
		w.begin("x1", s.of("eu"))
		us := inproc.New(inproc.Config{})
		defer us.Close()
		w.begin("x2", s.of("us"), func(c *Config) { c.Queue = us.Connect("x2") })
		w.limit(2)
		end := w.lasts()
		runs := w.runs(2, inAWhile(time.Second), 0)
		w.dispatch(30 * time.Second)
		before := w.taskSlots()
		for _, run := range runs {
			end(run)
		}
		w.dispatch(time.Minute)
		if n := len(before.Blocks); n != 1 || len(w.taskSlots().Blocks) != 0 {
			t.Fatalf("%d executors had slots, and %+v are taken in the end; want 1, and none", n, w.taskSlots().Blocks)
		}

		s.serve(2, "us")
		w.conn = us.Connect("test")
		was, err := w.inner.Lease(t.Context(), schema.TaskLimit(schema.TaskName{Tenant: "t", Name: "a"}).Lease())
		if err != nil {
			t.Fatal(err)
		}
		is, err := was.WithSlots(before, time.Now())
		if err == nil {
			_, err = w.inner.SwapLease(t.Context(), was, is, time.Now().Add(time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.runs(2, inAWhile(time.Second), 0)
		w.dispatch(time.Minute)
		if n := len(w.started()); n != 4 {
			t.Errorf("%d runs have begun, want those of us too: 4", n)
		}
	})
}
