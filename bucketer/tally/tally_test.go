package tally

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

var at = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func jobOf(n int) schema.JobID { return schema.MakeJobID(at, 1, uint64(n)) }

// sum returns what all names of a kind counted together, with the others.
func sum(s schema.NameStats) schema.Counts {
	all := s.Others
	for i := range s.Names {
		all.Add(&s.Names[i].Counts)
	}
	return all
}

// start counts a run that started so late, and succeeded.
func start(t *Tally, k Key, late time.Duration) {
	b := t.Begin()
	defer b.End()
	b.Start(&k, late)
	b.Ended(&k, &schema.Record{Outcome: schema.Succeeded})
}

func TestRunsAreCountedByTheirNames(t *testing.T) {
	tl := New()
	long := "é" + strings.Repeat("x", schema.MaxLastError-3) + "éé" // its bound cuts a letter
	last := long[:schema.MaxLastError-1]
	task := Key{Tenant: "a", Task: "mail", Job: jobOf(1), JobName: "nightly", URL: "https://API.example.com:8443/v1?x=1"}
	inline := Key{Tenant: "b", URL: "http://api.example.com"}
	tl.Due([]Lot{{Key{Tenant: "a", Task: "mail", Job: jobOf(1)}, 3}, {Key{Tenant: "b"}, 1}})
	b := tl.Begin()
	b.Start(&task, 3*time.Millisecond)
	b.Ended(&task, &schema.Record{Outcome: schema.Failed, Error: "answered 503", Next: schema.MakeEntryID(time.UnixMilli(1000), 0, 1)})
	b.Start(&inline, 2*time.Second)
	b.Ended(&inline, &schema.Record{Outcome: schema.Succeeded})
	b.Start(&task, 0)
	b.Ended(&task, &schema.Record{Outcome: schema.TimedOut, Error: long})
	b.Ended(&task, &schema.Record{Outcome: schema.Missed, Reason: "deadline: it could not start within 5s"})
	b.Ended(&task, &schema.Record{Outcome: schema.Cancelled})
	b.End()
	tl.Missed(task, "skipped: so many are under way", 7)
	ofTask := schema.Counts{
		Due: 3, Started: 2, Failed: 2, Missed: 8, MissedFor: schema.MissedFor{Late: 1, UnderWay: 7}, Retried: 1, Lateness: schema.LatenessCounts{0: 1, 2: 1}, MaxLateness: schema.Duration(3 * time.Millisecond),
	}
	ofInline := schema.Counts{Due: 1, Started: 1, Succeeded: 1, Lateness: schema.LatenessCounts{10: 1}, MaxLateness: schema.Duration(2 * time.Second)}
	withoutDue := func(c schema.Counts) schema.Counts { c.Due = 0; return c }
	want := map[schema.StatsKind][]schema.NameCounts{
		schema.ByTenant: {{Tenant: "a", Counts: ofTask}, {Tenant: "b", Counts: ofInline}},
		schema.ByTask:   {{Tenant: "a", Name: "mail", Counts: ofTask, LastError: last}},
		schema.ByJob:    {{Tenant: "a", Job: jobOf(1), Counts: ofTask, LastError: last}}, // the name that came first stands: none
		schema.ByHost: {
			{Tenant: "a", Name: "api.example.com:8443", Counts: withoutDue(ofTask), LastError: last}, {Tenant: "b", Name: "api.example.com", Counts: withoutDue(ofInline)},
		},
	}
	check := func(got schema.NameStats) {
		t.Helper()
		if fmt.Sprint(got.Names) != fmt.Sprint(want[got.Kind]) || got.Others != (schema.Counts{}) {
			t.Errorf("counts by %s = %+v\nwant %+v", got.Kind, got, want[got.Kind])
		}
	}
	for _, kind := range schema.StatsKinds {
		check(tl.Names(kind))
	}
	taken := tl.Take()
	if len(taken) != 4 {
		t.Errorf("Take = %d kinds, want 4", len(taken))
	}
	for _, got := range taken {
		check(got)
	}
	if again := tl.Take(); len(again) != 0 {
		t.Errorf("Take again = %+v, want nothing", again)
	}
}

func TestANilTallyCountsNothing(t *testing.T) {
	var tl *Tally
	tl.Due([]Lot{{Key{Tenant: "a"}, 1}})
	tl.Missed(Key{Tenant: "a"}, "changed: it was", 1)
	start(tl, Key{Tenant: "a"}, 0)
	if got := tl.Names(schema.ByTenant); len(got.Names) != 0 || got.Kind != schema.ByTenant || tl.Take() != nil {
		t.Errorf("Names = %+v, want none", got)
	}
}

func TestHostsOfURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://API.example.com:8443/v1?x=1": "api.example.com:8443", "http://h": "h", "http://h?a": "h", "http://h#a@b": "h", "http://[::1]:80/x": "[::1]:80",
		"https://user:hush@h.test/a": "h.test", "https://a@b@h.test": "h.test", "https://h.test/@x": "h.test", "": "", "h/x": "", "://": "",
		"http://" + strings.Repeat("h", 300): strings.Repeat("h", maxHost),
	} {
		if got := HostOf(url); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

// However many names there are, memory and rows are bounded, sums are exact, and what is busy or
// fails is counted for itself.
func TestManyNamesAreBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	tl := New()
	const runs = 200_000
	busy, failing := Key{Tenant: "busy", Task: "busy", Job: jobOf(1), URL: "http://busy"}, Key{Tenant: "ill", Task: "ill", Job: jobOf(2), URL: "http://ill"}
	var wantBusy, wantIll int64
	for i := range runs {
		switch rnd.IntN(100) {
		case 0, 1:
			start(tl, busy, 0)
			wantBusy++
		case 2:
			if rnd.IntN(10) > 0 { // seldom, but it fails
				continue
			}
			b := tl.Begin()
			b.Start(&failing, 0)
			b.Ended(&failing, &schema.Record{Outcome: schema.Failed})
			b.End()
			wantIll++
		default:
			n := fmt.Sprint(i)
			start(tl, Key{Tenant: "t" + n, Task: "k", Job: jobOf(i + 10), URL: "http://h" + n + "/x"}, 0)
		}
	}
	if n := max(len(tl.tenants.cells), len(tl.tasks.cells), len(tl.jobs.cells), len(tl.hosts.cells)); n > namesMost {
		t.Errorf("%d names in memory, want at most %d", n, namesMost)
	}
	if n := len(tl.jobs.spare) + len(tl.jobs.cells); n > namesMost {
		t.Errorf("%d cells in memory, want at most %d", n, namesMost)
	}
	want := sum(tl.Names(schema.ByTenant))
	for _, s := range tl.Take() {
		got := sum(s)
		if got != want {
			t.Errorf("by %s: the sums are %+v, want %+v", s.Kind, got, want)
		}
		if len(s.Names) > Kept[s.Kind] {
			t.Errorf("by %s: %d names, want at most %d", s.Kind, len(s.Names), Kept[s.Kind])
		}
		text, err := json.Marshal(s)
		if err != nil || len(text) > schema.MaxNameStats {
			t.Errorf("by %s: a row has %d bytes, %v; want at most %d", s.Kind, len(text), err, schema.MaxNameStats)
		}
		t.Logf("by %s: %d names, %d bytes", s.Kind, len(s.Names), len(text))
		found := map[string]schema.Counts{}
		for _, n := range s.Names {
			found[n.Tenant] = n.Counts
		}
		// What came before the first prune of its name's is with the others: next to nothing.
		if got := found["busy"].Started; got < wantBusy*99/100 {
			t.Errorf("by %s: the busy one started %d, want %d", s.Kind, got, wantBusy)
		}
		if got := found["ill"].Failed; got < wantIll*9/10 {
			t.Errorf("by %s: the one that fails failed %d times, want %d", s.Kind, got, wantIll)
		}
	}
}

// A row has at most so many bytes, however long the names are.
func TestRowsAreBounded(t *testing.T) {
	tl := New()
	for i := range 1000 {
		start(tl, Key{Tenant: strings.Repeat("t", 60) + fmt.Sprint(i), URL: fmt.Sprintf("http://%s%d.test/", strings.Repeat("<", 500), i)}, time.Hour)
	}
	for _, s := range tl.Take() {
		text, err := json.Marshal(s)
		if err != nil || len(text) > schema.MaxNameStats {
			t.Errorf("by %s: a row has %d bytes, %v; want at most %d", s.Kind, len(text), err, schema.MaxNameStats)
		}
		if got := sum(s); got.Started != 1000 {
			t.Errorf("by %s: %d starts, want 1000", s.Kind, got.Started)
		}
		t.Logf("by %s: %d names, %d bytes", s.Kind, len(s.Names), len(text))
	}
}

func TestManyCountAtOnce(t *testing.T) {
	tl := New()
	var wg sync.WaitGroup
	const each, workers = 2000, 8
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				start(tl, Key{Tenant: fmt.Sprint(w), Task: fmt.Sprint(i)}, 0)
				tl.Due([]Lot{{Key{Tenant: "all"}, 1}})
			}
		})
	}
	var total schema.Counts
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		for _, s := range tl.Take() {
			if s.Kind == schema.ByTenant {
				got := sum(s)
				total.Add(&got)
			}
		}
	}
	if total.Started != each*workers || total.Due != each*workers {
		t.Errorf("counted were %+v, want %d of each", total, each*workers)
	}
}

// keys are the keys of some mixes of runs.
var keys = map[string][]Key{
	"alike": {{Tenant: "t", Task: "mail", URL: "https://api.example.com/v1/mails"}},
	"mixed": func() (all []Key) {
		for i := range 100 {
			all = append(all, Key{
				Tenant: fmt.Sprint("t", i%7), Task: fmt.Sprint("k", i%13), Job: jobOf(i), JobName: "n", URL: fmt.Sprintf("https://h%d.example.com/x/%d", i%5, i),
			})
		}
		return all
	}(),
	"more than fit": func() (all []Key) {
		for i := range 5000 {
			all = append(all, Key{Tenant: "t", Job: jobOf(i)})
		}
		return all
	}(),
}

// count counts n runs in batches of 100.
func count(tl *Tally, of []Key, n int) {
	for i := 0; i < n; {
		b := tl.Begin()
		for range min(100, n-i) {
			k := &of[i%len(of)]
			b.Start(k, 2*time.Millisecond)
			b.Ended(k, &schema.Record{Outcome: schema.Succeeded})
			i++
		}
		b.End()
	}
}

// Once its names are known a run costs no allocation, whatever other runs there are, and in the next
// minute too.
func TestCountingAllocatesNothing(t *testing.T) {
	for name, of := range keys {
		t.Run(name, func(t *testing.T) {
			tl := New()
			count(tl, of, 2*len(of))
			if allocs := testing.AllocsPerRun(10, func() { count(tl, of, 1000) }); allocs != 0 {
				t.Errorf("1000 runs cost %v allocations, want none", allocs)
			}
			lots := make([]Lot, 64)
			for i := range lots {
				lots[i] = Lot{of[i%len(of)], 1}
			}
			tl.Due(lots)
			if allocs := testing.AllocsPerRun(10, func() { tl.Due(lots) }); allocs != 0 {
				t.Errorf("64 lots cost %v allocations, want none", allocs)
			}
			tl.tenants.reset()
			tl.jobs.reset()
			if allocs := testing.AllocsPerRun(1, func() { tl.jobs.reset(); count(tl, of, 1000) }); allocs != 0 {
				t.Errorf("1000 runs of the next minute cost %v allocations, want none", allocs)
			}
		})
	}
}

func BenchmarkCount(b *testing.B) {
	for _, name := range []string{"alike", "mixed", "more than fit"} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			tl := New()
			count(tl, keys[name], 2*len(keys[name]))
			b.ReportAllocs()
			for b.Loop() {
				count(tl, keys[name], 1000)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/run")
		})
	}
}
