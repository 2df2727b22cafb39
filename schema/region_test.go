package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestNewHomes(t *testing.T) {
	rng := func(first, last schema.Shard) []schema.ShardRange {
		return []schema.ShardRange{{First: first, Last: last}}
	}
	for _, test := range []struct {
		name   string
		list   []schema.Home
		faults []string
	}{
		{"two homes", []schema.Home{{"eu", rng(0, 31)}, {"us", rng(32, 63)}}, nil},
		{"one in two ranges", []schema.Home{{"eu", append(rng(0, 1), rng(4, 5)...)}, {"us", rng(2, 3)}}, nil},
		{"none", nil, nil},
		{
			"every fault is told",
			[]schema.Home{{"", rng(0, 0)}, {"eu", nil}, {"eu", rng(5, 4)}, {"us", rng(0, 2)}, {"ap", rng(4, schema.MaxShards)}},
			[]string{"a home has no name", "home eu has no shards", "home eu is named twice", "home eu: 5-4 is no range", "shard 0 has two homes,  and us", "home ap: 4-4096 is no range"},
		},
		{"a gap", []schema.Home{{"eu", rng(0, 3)}, {"us", rng(5, 8)}}, []string{"shard 4 has no home"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.NewHomes(test.list)
			if (err != nil) != (len(test.faults) > 0) {
				t.Fatalf("NewHomes: got %v, want faults %q", err, test.faults)
			}
			for _, fault := range test.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("NewHomes: got %v, want it to name %q", err, fault)
				}
			}
		})
	}
}

func TestHomeOf(t *testing.T) {
	h, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{0, 1}, {4, 5}}}, {Name: "us", Shards: []schema.ShardRange{{2, 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	for shard, want := range []string{"eu", "eu", "us", "us", "eu", "eu", ""} {
		if got, ok := h.Of(schema.Shard(shard)); got != want || ok != (want != "") { // #nosec G115 -- small
			t.Errorf("Of(%d) = %q, %v, want %q", shard, got, ok, want)
		}
	}
	h, err = h.WithTenants(map[string]string{"acme": "us"})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]string{"acme": "us", "": "eu", "other": "eu"} {
		if got, stated := h.OfTenant(tenant); got != want || stated != (tenant == "acme") {
			t.Errorf("OfTenant(%q) = %q, %v, want %q", tenant, got, stated, want)
		}
	}
	if _, err := h.WithTenants(map[string]string{"acme": "ap"}); err == nil {
		t.Error("WithTenants: a home that is not there: nil, want an error")
	}
	for _, row := range []struct {
		home  string
		below int
		want  []schema.Shard
	}{{"eu", 6, []schema.Shard{0, 1, 4, 5}}, {"eu", 5, []schema.Shard{0, 1, 4}}, {"us", 64, []schema.Shard{2, 3}}, {"us", 2, []schema.Shard{}}, {"ap", 6, nil}} {
		if got := h.Shards(row.home, row.below); !slices.Equal(got, row.want) {
			t.Errorf("Shards(%s, %d) = %v, want %v", row.home, row.below, got, row.want)
		}
	}
	if err := h.Covers(6); err != nil {
		t.Errorf("Covers(6) = %v, want nil", err)
	}
	if err := h.Covers(7); err == nil {
		t.Error("Covers(7) = nil, want an error: shard 6 has no home")
	}
	if got, ok := (schema.Homes{}).Of(0); ok || got != "" {
		t.Errorf("without homes Of(0) = %q, %v, want none", got, ok)
	}
}

// TestHomeLease is the table of HomeLease.Observe and Served: what our region, eu, knows after
// reads, and whether it may act.
func TestHomeLease(t *testing.T) {
	const s = time.Second
	type read struct {
		sent, answered time.Duration
		number         int64
		region         string
		serves         int64
		announced      int64 // -1: the beats were not read
	}
	for _, test := range []struct {
		name  string
		reads []read
		at    time.Duration // asked
		epoch int64         // 0: not served
		why   string        // part of the error
		retry time.Duration
		other string // the region that serves it
	}{
		{"never read", nil, 0, 0, "has not been read yet", 2 * s, ""},
		{"no epoch", []read{{0, 0, 0, "", 0, 0}}, 0, 0, "run carillon migrate", 2 * s, ""},
		{"the first epoch, at once", []read{{0, 1 * s, 1, "eu", 0, 0}}, 1 * s, 1, "", 0, ""},
		{"until the end of its life", []read{{0, 1 * s, 1, "eu", 0, 0}}, 10*s - 1, 1, "", 0, ""},
		{"not at its end, counted from before it was asked", []read{{0, 9 * s, 1, "eu", 0, 0}}, 10 * s, 0, "could not be read for 10s", 2 * s, ""},
		{"each read prolongs it", []read{{0, 0, 1, "eu", 0, 0}, {9 * s, 9 * s, 1, "eu", 0, 0}}, 18 * s, 1, "", 0, ""},
		{"of another region", []read{{0, 0, 3, "us", 0, 0}}, 0, 0, "region us serves it (epoch 3)", 0, "us"},
		{"of another region, long ago", []read{{0, 0, 3, "us", 0, 0}}, 11 * s, 0, "could not be read", 2 * s, ""},
		{"lost to another", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 2, "us", 0, 0}}, 2 * s, 0, "region us serves it (epoch 2)", 0, "us"},
		{"taken over: it waits", []read{{0, 0, 1, "us", 0, 0}, {2 * s, 3 * s, 2, "eu", 0, 0}, {13 * s, 13 * s, 2, "eu", 0, 0}}, 15*s - 1, 0, "it takes the home over (epoch 2)", 1, "eu"},
		{"taken over: it has waited", []read{{0, 0, 1, "us", 0, 0}, {2 * s, 3 * s, 2, "eu", 0, 0}, {13 * s, 13 * s, 2, "eu", 0, 0}}, 15 * s, 2, "", 0, ""},
		{"a node that starts waits too", []read{{0, 0, 2, "eu", 0, 0}}, 9 * s, 0, "takes the home over", 3 * s, "eu"},
		{"unless its region serves already", []read{{0, 1 * s, 2, "eu", 2, 0}}, 1 * s, 2, "", 0, ""},
		{"it hears that while it waits", []read{{0, 0, 2, "eu", 0, 0}, {2 * s, 3 * s, 2, "eu", 2, 0}}, 3 * s, 2, "", 0, ""},
		{"what the region served before does not count", []read{{0, 0, 4, "eu", 2, 0}}, 0, 0, "takes the home over", 12 * s, "eu"},
		{"ours follows ours", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 2, "eu", 0, 0}}, 2 * s, 2, "", 0, ""},
		{"ours follows ours, which waited", []read{{0, 0, 1, "us", 0, 0}, {1 * s, 1 * s, 2, "eu", 0, 0}, {2 * s, 2 * s, 3, "eu", 0, 0}}, 10 * s, 0, "takes the home over", 3 * s, "eu"},
		{"ours follows ours, and one between was not seen", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 3, "eu", 0, 0}}, 2 * s, 0, "takes the home over", 12 * s, "eu"},
		{"an answer that comes late changes nothing", []read{{1 * s, 1 * s, 2, "us", 0, 0}, {0, 2 * s, 1, "eu", 0, 0}}, 2 * s, 0, "region us serves it (epoch 2)", 0, "us"},
		{"announced: a short lease", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 1, "eu", 0, 1}}, 5*s - 1, 1, "", 0, ""},
		{"announced: it ends soon", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 1, "eu", 0, 1}}, 5 * s, 0, "could not be read for 3s", 2 * s, ""},
		{"announced before: the next epoch has a long one", []read{{0, 0, 2, "eu", 2, 1}}, 10*s - 1, 2, "", 0, ""},
		{"beats were not read: a short lease", []read{{0, 0, 1, "eu", 0, -1}}, 3 * s, 0, "could not be read for 3s", 2 * s, ""},
		{"beats were not read, and before they were: the rest of a long one", []read{{0, 0, 1, "eu", 0, 0}, {2 * s, 2 * s, 1, "eu", 0, -1}}, 10*s - 1, 1, "", 0, ""},
		{"beats were not read: what was announced stays so", []read{{0, 0, 1, "eu", 0, 1}, {2 * s, 2 * s, 1, "eu", 0, -1}}, 5 * s, 0, "could not be read for 3s", 2 * s, ""},
		{"taken over after an announcement: it waits", []read{{0, 0, 1, "us", 0, 1}, {12 * s, 13 * s, 2, "eu", 0, 1}, {17 * s, 17 * s, 2, "eu", 0, 1}}, 18*s - 1, 0, "takes the home over", 1, "eu"},
		{"taken over after an announcement: it has waited", []read{{0, 0, 1, "us", 0, 1}, {12 * s, 13 * s, 2, "eu", 0, 1}, {17 * s, 17 * s, 2, "eu", 0, 1}}, 18 * s, 2, "", 0, ""},
		{"taken over soon after it: some may not have heard", []read{{0, 1 * s, 1, "us", 0, 1}, {2 * s, 3 * s, 2, "eu", 0, 1}, {12 * s, 12 * s, 2, "eu", 0, 1}}, 13*s - 1, 0, "takes the home over", 1, "eu"},
		{"taken over soon after it: they have", []read{{0, 1 * s, 1, "us", 0, 1}, {2 * s, 3 * s, 2, "eu", 0, 1}, {12 * s, 12 * s, 2, "eu", 0, 1}}, 13 * s, 2, "", 0, ""},
		{"the announcement is of an epoch before", []read{{0, 0, 2, "us", 0, 1}, {12 * s, 12 * s, 3, "eu", 0, 1}}, 17 * s, 0, "takes the home over", 7 * s, "eu"},
		{"a node that starts hears of both at once", []read{{0, 0, 2, "eu", 0, 1}}, 9 * s, 0, "takes the home over", 3 * s, "eu"},
		{"and prolongs nothing", []read{{0, 0, 2, "eu", 2, 0}, {9 * s, 9 * s, 1, "eu", 0, 0}}, 10 * s, 0, "could not be read", 2 * s, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			begin := time.Now()
			var l schema.HomeLease
			for _, r := range test.reads {
				l = l.Observe(schema.HomeRead{
					Epoch: schema.Epoch{Home: "h", Number: r.number, Region: r.region}, Sent: begin.Add(r.sent), Answered: begin.Add(r.answered),
					Whole: r.announced >= 0, Announced: max(r.announced, 0), Serves: r.serves,
				}, "eu")
			}
			epoch, err := l.Served("h", "eu", begin.Add(test.at))
			if epoch != test.epoch || (err == nil) != (test.why == "") {
				t.Fatalf("Served = %d, %v, want %d, %q", epoch, err, test.epoch, test.why)
			}
			if err == nil {
				return
			}
			var why *schema.NotServedError
			if !errors.Is(err, schema.ErrNotServed) || !errors.As(err, &why) || !strings.Contains(err.Error(), test.why) || !strings.Contains(err.Error(), "home h") {
				t.Fatalf("Served = %v, want ErrNotServed that names the home and says %q", err, test.why)
			}
			if why.RetryAfter() != test.retry || why.Region() != test.other {
				t.Errorf("RetryAfter, Region = %v, %q, want %v, %q", why.RetryAfter(), why.Region(), test.retry, test.other)
			}
		})
	}
}

// TestAnAnnouncementStands: it is of the epoch alone, whoever writes it and when, and the one of a
// later epoch replaces it.
func TestAnAnnouncementStands(t *testing.T) {
	first := schema.Announcement(schema.Epoch{Home: "eu", Number: 1, Region: "eu", By: "ann"})
	second := schema.Announcement(schema.Epoch{Home: "eu", Number: 2, Region: "us", By: "bob"})
	if first.Region != "announced/eu" || first.Count != 1 || first.At.IsZero() || !second.At.After(first.At) {
		t.Errorf("Announcement = %+v and %+v, want rows of one name, of epoch 1 and 2, the second later", first, second)
	}
}

func TestNextEpoch(t *testing.T) {
	at := time.Date(2026, 11, 27, 1, 2, 3, 4_567_000, time.FixedZone("x", 3600))
	e := schema.Epoch{Home: "eu", Number: 7, Region: "eu"}.Next("us", "ann", "eu is down", at)
	want := schema.Epoch{Home: "eu", Number: 8, Region: "us", By: "ann", Reason: "eu is down", At: at.UTC().Truncate(time.Millisecond)}
	if e != want || !e.Same(want) || e.Validate() != nil {
		t.Errorf("Next = %+v, want %+v", e, want)
	}
	for _, bad := range []schema.Epoch{{Number: 1, Region: "r"}, {Home: "h", Region: "r"}, {Home: "h", Number: 1}} {
		if bad.Validate() == nil {
			t.Errorf("Validate of %+v = nil, want an error", bad)
		}
	}
}
