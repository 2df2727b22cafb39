package schema_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// graceMS is schema.SessionGrace. What expired at past s is over 10 s after began.
const (
	graceMS = int(schema.SessionGrace / time.Millisecond)
	past    = 10 - graceMS/1000 - 1
)

var began = time.UnixMilli(1_800_000_000_000).UTC()

// until is a session of an executor's life that expires s seconds after began.
func until(id string, s int, former ...schema.FormerSession) schema.Session {
	return schema.Session{Executor: "ex", ID: id, Expires: began.Add(time.Duration(s) * time.Second), Former: former}
}

func former(id string, s int) schema.FormerSession {
	return schema.FormerSession{ID: id, Expires: began.Add(time.Duration(s) * time.Second)}
}

func TestSessionTakesThePlaceOfAnother(t *testing.T) {
	for _, c := range []struct {
		name    string
		is, was schema.Session
		now     int
		want    schema.Session
	}{
		{"none", until("b", 20), schema.Session{Executor: "ex"}, 10, until("b", 20)},
		{"its own renewal", until("b", 23), until("b", 20), 13, until("b", 23)},
		{"another life's", until("b", 20), until("a", 15), 10, until("b", 20, former("a", 15))},
		{"one that has expired, and is not over", until("b", 20), until("a", 8), 10, until("b", 20, former("a", 8))},
		{"one that is over", until("b", 20), until("a", past), 10, until("b", 20)},
		{"one that remembers another", until("c", 20), until("b", 18, former("a", 15)), 10, until("c", 20, former("a", 15), former("b", 18))},
		{"one that remembers what is over", until("c", 20), until("b", 18, former("a", past)), 10, until("c", 20, former("b", 18))},
		{"its own renewal, when what it remembers is over", until("b", 23), until("b", 20, former("a", past), former("z", 9)), 10, until("b", 23, former("z", 9))},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := fmt.Sprint(c.was)
			got, err := c.is.After(c.was, began.Add(time.Duration(c.now)*time.Second))
			if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("After = %v, %v; want %v", got, err, c.want)
			}
			if after := fmt.Sprint(c.was); after != before {
				t.Errorf("After changed what was: %s, want %s", after, before)
			}
		})
	}
}

func TestSessionOfAClockThatMayBeWrongForgetsNothing(t *testing.T) {
	got, err := until("c", 20).After(until("b", 7, former("a", 1)), time.Time{})
	if want := until("c", 20, former("a", 1), former("b", 7)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("After at no time = %v, %v; want %v", got, err, want)
	}
	if ref := (schema.SessionRef{Executor: "ex", ID: "a", Guarded: true}); !got.Supports(ref, time.Time{}) {
		t.Error("Supports at no time = false of a session that is remembered, want true")
	}
}

func TestSessionRemembersSoMuch(t *testing.T) {
	is := until("0", 10)
	for i := 1; i <= schema.MaxFormer; i++ {
		next, err := until(fmt.Sprint(i), 10).After(is, began)
		if err != nil {
			t.Fatalf("After %d lives = %v, want none", i, err)
		}
		is = next
	}
	if _, err := until("one more", 10).After(is, began); !errors.Is(err, schema.ErrRestarts) {
		t.Errorf("After one life more than is remembered = %v, want %v", err, schema.ErrRestarts)
	}
	if next, err := until("one more", 30).After(is, began.Add(11*time.Second+schema.SessionGrace)); err != nil || len(next.Former) != 0 {
		t.Errorf("After all of them were over = %v, %v; want one that remembers none", next, err)
	}
}

func TestSessionIsLeft(t *testing.T) {
	at := began.Add(10 * time.Second)
	for _, c := range []struct {
		name      string
		was, want schema.Session
	}{
		{"with nothing to remember", until("a", 20), schema.Session{Executor: "ex"}},
		{"with what is over", until("b", 20, former("a", past)), schema.Session{Executor: "ex"}},
		{"with what is not", until("c", 20, former("b", 13), former("a", 12), former("z", past)), until("nobody's", 13, former("b", 13), former("a", 12))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.was.Left("nobody's", at); !reflect.DeepEqual(got, c.want) {
				t.Errorf("Left = %v, want %v", got, c.want)
			}
		})
	}
}

func TestSessionReleasesSlots(t *testing.T) {
	s := until("b", 20)
	s.Released = map[string]int64{"eu": 5}
	for _, c := range []struct {
		home  string
		epoch int64
		want  bool
	}{{"", 0, true}, {"eu", 4, false}, {"eu", 5, true}, {"eu", 6, true}, {"us", 1, true}} {
		ref := schema.SessionRef{Executor: "ex", ID: "b", Guarded: true, Home: c.home, Epoch: c.epoch}
		if got := s.Supports(ref, began); got != c.want {
			t.Errorf("a slot that was taken in epoch %d of home %q stands: %v, want %v", c.epoch, c.home, got, c.want)
		}
	}
}

func TestSessionSupports(t *testing.T) {
	s := until("c", 20, former("a", 5), former("b", 9))
	for _, c := range []struct {
		name    string
		id      string
		guarded bool
		ms      int
		want    bool
	}{
		{"itself", "c", false, 10_000, true},
		{"a claim of itself", "c", true, 10_000, true},
		{"itself, long expired: nobody has declared it dead", "c", true, 60_000, true},
		{"a former one", "a", false, 1_000, false},
		{"a claim of a former one", "a", true, 1_000, true},
		{"the same when it has expired", "a", true, 6_000, true},
		{"the same to the end of the grace", "a", true, 5_000 + graceMS, true},
		{"the same 1 ms after that", "a", true, 5_001 + graceMS, false},
		{"a claim of the other one then", "b", true, 5_001 + graceMS, true},
		{"a claim of one that is not remembered", "z", true, 1_000, false},
		{"a claim of none", "", true, 1_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := schema.SessionRef{Executor: "ex", ID: c.id, Guarded: c.guarded}
			if got := s.Supports(ref, began.Add(time.Duration(c.ms)*time.Millisecond)); got != c.want {
				t.Errorf("Supports(%+v) = %v, want %v", ref, got, c.want)
			}
		})
	}
	if (schema.Session{}).Supports(schema.SessionRef{Guarded: true}, began) {
		t.Error("no session supports no session, want that it does not")
	}
}

func TestSessionIsOver(t *testing.T) {
	for _, c := range []struct {
		name string
		s    schema.Session
		ms   int
		want bool
	}{
		{"at the end of the grace", until("a", 10), 10_000 + graceMS, false},
		{"1 ms later", until("a", 10), 10_001 + graceMS, true},
		{"while what it remembers is not", until("b", 10, former("a", 11)), 10_500 + graceMS, false},
		{"when that is over too", until("b", 10, former("a", 11)), 11_001 + graceMS, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.s.Over(began.Add(time.Duration(c.ms) * time.Millisecond)); got != c.want {
				t.Errorf("Over = %v, want %v", got, c.want)
			}
		})
	}
}
