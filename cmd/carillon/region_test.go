package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

// TestAnotherRegionServesAHome: when a home may be moved or failed over, by which regions give signs of
// life, and what stands afterwards.
func TestAnotherRegionServesAHome(t *testing.T) {
	for name, row := range map[string]struct {
		alive  []string
		o      handing
		said   string // part of what is said, or of the error
		failed bool
		want   string // the region that serves home eu afterwards
	}{
		"move":                                 {[]string{"eu", "us"}, handing{schema.HomeChange{Home: "eu", To: "us"}, false}, "serves home eu in epoch 2", false, "us"},
		"only a plan":                          {[]string{"eu", "us"}, handing{schema.HomeChange{Home: "eu", To: "us"}, true}, "would have region us serve home eu in epoch 2", false, "eu"},
		"move to where it is":                  {[]string{"eu", "us"}, handing{schema.HomeChange{Home: "eu", To: "eu"}, false}, "serves home eu already", false, "eu"},
		"move from a region that is lost":      {[]string{"us"}, handing{schema.HomeChange{Home: "eu", To: "us"}, false}, "region eu gives no sign of life: if it is lost, fail the home over", true, "eu"},
		"move to a region that is lost":        {[]string{"eu"}, handing{schema.HomeChange{Home: "eu", To: "us"}, false}, "region us gives no sign of life", true, "eu"},
		"fail over":                            {[]string{"us"}, handing{schema.HomeChange{Home: "eu", To: "us", Forced: true}, false}, "serves home eu in epoch 2", false, "us"},
		"fail over from a region that is well": {[]string{"eu", "us"}, handing{schema.HomeChange{Home: "eu", To: "us", Forced: true}, false}, "region eu gives signs of life: move the home", true, "eu"},
		"fail over to a region that is lost":   {nil, handing{schema.HomeChange{Home: "eu", To: "us", Forced: true}, false}, "region us gives no sign of life", true, "eu"},
		"no such region":                       {nil, handing{schema.HomeChange{Home: "eu", To: "ap"}, false}, "there is no region ap: there are eu, us", true, "eu"},
		"no such home":                         {nil, handing{schema.HomeChange{Home: "ap", To: "us"}, false}, "there is no home ap: there are eu, us", true, "eu"},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, row.alive, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
				err := r.hand(t.Context(), row.o)
				said := out.String()
				if err != nil {
					said += err.Error()
				}
				if (err != nil) != row.failed || !strings.Contains(said, row.said) {
					t.Errorf("hand(%+v) says %q, %v; want %q", row.o, out.String(), err, row.said)
				}
				if got := serving(t, r, "eu"); got.Region != row.want {
					t.Errorf("region %s serves home eu afterwards, want %s", got.Region, row.want)
				}
			})
		})
	}
}

// lagging is a store whose data centre has these beats.
type lagging struct {
	schema.EpochStore
	here []schema.Beat
}

func (l lagging) BeatsHere(context.Context) ([]schema.Beat, error) { return l.here, nil }

// TestAFailOverSaysWhatItCosts: by how much the region that takes over is behind, as its own data
// centre tells.
func TestAFailOverSaysWhatItCosts(t *testing.T) {
	for name, row := range map[string]struct {
		region string
		behind time.Duration // of the beat that the data centre has; negative: it has none
		said   string
	}{
		"all of it is there": {"us", 0, "region us has that sign of life"},
		"behind":             {"us", 4 * time.Second, "region us is behind by 4s before that sign"},
		"nothing is there":   {"us", -1, "region us has no sign of life of region eu"},
		"asked elsewhere":    {"eu", 0, "run this with the configuration of a node of region us"},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, []string{"us"}, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
				beats, err := r.store.Beats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				l := lagging{EpochStore: r.store}
				for _, b := range beats {
					if b.At = b.At.Add(-row.behind); row.behind >= 0 {
						l.here = append(l.here, b)
					}
				}
				r.store, r.region = l, row.region
				if err := r.hand(t.Context(), handing{schema.HomeChange{Home: "eu", To: "us", Forced: true}, true}); err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"the last sign of life of region eu is 6s old", row.said, "would have region us serve home eu in epoch 2"} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("failover --plan says\n%s\nwant %q", out, want)
					}
				}
			})
		})
	}
}

// noted is a store that notes what is written, and when.
type noted struct {
	schema.EpochStore
	announced []time.Time
	drains    []schema.Beat
	moved     []time.Time
	last      schema.Epoch // that was written
}

func (n *noted) PutBeat(ctx context.Context, b schema.Beat) error {
	switch b.Region {
	case schema.AnnounceRow("eu"):
		n.announced = append(n.announced, time.Now())
	case schema.DrainRow("eu"):
		n.drains = append(n.drains, b)
	}
	return n.EpochStore.PutBeat(ctx, b)
}

func (n *noted) InsertEpoch(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	n.moved, n.last = append(n.moved, time.Now()), e
	return n.EpochStore.InsertEpoch(ctx, e)
}

// TestAMoveIsAnnouncedAndDrained: the move is announced, then the region that serves the home is asked to
// drain it, and the epoch goes on only after what is under way had its time. Who gives up takes the
// request back, and the epoch after the one whose end was announced is of the same region.
func TestAMoveIsAnnouncedAndDrained(t *testing.T) {
	move := handing{schema.HomeChange{Home: "eu", To: "us", By: "ann", Drain: 30 * time.Second}, false}
	inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, _ *bytes.Buffer) {
		n := &noted{EpochStore: r.store}
		r.store = n
		if err := r.hand(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		want := schema.Drain{Home: "eu", Epoch: 1, To: "us", For: schema.Duration(30 * time.Second)}
		if len(n.drains) != 1 || n.drains[0].Region != "drain/eu" || n.drains[0].Drain == nil || *n.drains[0].Drain != want {
			t.Fatalf("written: %+v, want the request to drain home eu", n.drains)
		}
		if len(n.moved) != 1 || n.moved[0].Sub(n.drains[0].At) < 30*time.Second {
			t.Errorf("the epoch was written at %v, the request at %v, want 30 s between them", n.moved, n.drains[0].At)
		}
		if len(n.announced) != 1 || n.moved[0].Sub(n.announced[0]) < schema.TakeOverWait+30*time.Second {
			t.Errorf("announced at %v, and the epoch was written at %v, want once, %v before the request", n.announced, n.moved, schema.TakeOverWait)
		}
	})
	for what, row := range map[string]struct {
		after  time.Duration
		drains int
	}{"while it is announced": {homes.ListenFor + time.Second, 0}, "while it is drained": {homes.ListenFor + schema.TakeOverWait + 10*time.Second, 2}} {
		inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
			n := &noted{EpochStore: r.store}
			r.store = n
			ctx, cancel := context.WithTimeout(t.Context(), row.after)
			defer cancel()
			if err := r.hand(ctx, move); !errors.Is(err, context.DeadlineExceeded) || len(n.moved) != 1 || n.last.Region != "eu" || n.last.Number != 2 {
				t.Errorf("hand that is given up %s = %v, epoch %+v, want that eu goes on in epoch 2", what, err, n.last)
			}
			if !strings.Contains(out.String(), "the move is given up: region eu serves home eu in epoch 2") {
				t.Errorf("hand that is given up %s says %q, want who serves the home", what, out)
			}
			if len(n.drains) != row.drains || row.drains > 0 && (n.drains[1].Region != "drain/eu" || n.drains[1].Drain != nil) {
				t.Errorf("written: %+v, want that the request is taken back", n.drains)
			}
		})
	}
}

// ahead is a store whose signs of life, and request to drain home eu, are of clocks that are ahead
// of ours.
type ahead struct {
	schema.EpochStore
	by   time.Duration
	lose bool // what is written is overtaken
}

func (a ahead) Beats(ctx context.Context) ([]schema.Beat, error) {
	beats, err := a.EpochStore.Beats(ctx)
	for i := range beats {
		if beats[i].Drain == nil {
			beats[i].At = beats[i].At.Add(a.by)
		}
	}
	return beats, err
}

func (a ahead) PutBeat(ctx context.Context, b schema.Beat) error {
	if a.lose && b.Drain != nil {
		b.Node, b.At = "bob", b.At.Add(time.Second)
	}
	return a.EpochStore.PutBeat(ctx, b)
}

// TestADrainIsOfTheTimeOfItsRegion: a request counts by the clock of the region that is asked, not
// by that of whoever asks; it stands over an older one that a clock which was ahead has written;
// one that does not stand is told.
func TestADrainIsOfTheTimeOfItsRegion(t *testing.T) {
	move := handing{schema.HomeChange{Home: "eu", To: "us", By: "ann", Drain: 30 * time.Second}, false}
	for name, row := range map[string]struct {
		by     time.Duration // our clock is behind by so much
		before time.Duration // how far ahead of the region's is the time of an older request; 0: there is none
		lose   bool
	}{
		"a clock that is behind":         {by: 5 * time.Minute},
		"a clock that is ahead":          {by: -5 * time.Minute},
		"an older request that is ahead": {before: time.Hour},
		"a request that is overtaken":    {lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, _ *bytes.Buffer) {
				old := schema.Beat{Region: schema.DrainRow("eu"), Node: "bob", At: time.Now().Add(row.before)}
				if row.before > 0 {
					if err := r.store.PutBeat(t.Context(), old); err != nil {
						t.Fatal(err)
					}
				}
				r.store = ahead{EpochStore: r.store, by: row.by, lose: row.lose}
				err := r.hand(t.Context(), move)
				if row.lose {
					if err == nil || !strings.Contains(err.Error(), "the request of bob stands") || serving(t, r, "eu").Number != 1 {
						t.Errorf("hand = %v, want that it was not drained, and not moved", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				beats, err := r.store.Beats(t.Context())
				stands, _ := schema.BeatOf(beats, schema.DrainRow("eu"))
				if err != nil || stands.Drain == nil || stands.Node != "ann" {
					t.Fatalf("%+v, %v stands, want our request", stands, err)
				}
				if asked := time.Now().Add(row.by - 30*time.Second); row.before == 0 && asked.Sub(stands.At).Abs() > 2*schema.HomeLeaseRead {
					t.Errorf("the request is of %v, want some time before %v, by the clock of the region", stands.At, asked)
				}
			})
		})
	}
}

// regionsPage is the page for operators of regions.
const regionsPage = "../../deploy/REGIONS.md"

// codeOf returns the lines of the page that are code, with those under regions: in a text of their
// own.
func codeOf(t *testing.T) (commands []string, settings string) {
	t.Helper()
	text, err := os.ReadFile(regionsPage)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		code, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		code = strings.TrimPrefix(strings.TrimPrefix(code, "sudo "), ".local/bin/")
		switch {
		case !ok:
		case code == "regions:", settings != "" && strings.HasPrefix(code, "  "):
			settings += code + "\n"
		case strings.HasPrefix(code, "carillon "):
			commands = append(commands, code)
		}
	}
	return commands, settings
}

// TestThePageOfRegionsShowsWhatIsThere: each command of it exists, with its flags, and the
// configuration of it is valid.
func TestThePageOfRegionsShowsWhatIsThere(t *testing.T) {
	commands, settings := codeOf(t)
	if len(commands) < 8 {
		t.Errorf("the page has the commands %q, want 8 or more", commands)
	}
	quoted := regexp.MustCompile(`'[^']*'`)
	for _, line := range commands {
		line, _, _ = strings.Cut(line, " #")
		args := strings.Fields(quoted.ReplaceAllString(line, "quoted"))[1:]
		cmd, rest, err := root().Find(args)
		if err == nil && cmd.HasSubCommands() {
			err = errors.New("it is a group of commands")
		}
		if err == nil {
			if err = cmd.ParseFlags(rest); err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	file := filepath.Join(t.TempDir(), "carillon.yaml")
	err := os.WriteFile(file, []byte("node: {name: a, region: eu}\ncassandra: {hosts: [c], datacenter: dc-eu}\nnats: {urls: ['nats://n:4222']}\n"+settings), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, nil)
	if err != nil || len(c.Regions.Homes) != 2 || len(c.Regions.API) != 2 || c.Regions.Witness == "" {
		t.Errorf("the configuration of the page is %+v, %v, want two regions with APIs and a witness", c.Regions, err)
	}
}

// faster is a store into which somebody else writes an epoch first.
type faster struct{ schema.EpochStore }

func (f faster) InsertEpoch(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	other := e
	other.Region, other.By, other.Reason = "ap", "ann", "drill"
	if _, err := f.EpochStore.InsertEpoch(ctx, other); err != nil {
		return schema.Epoch{}, err
	}
	return f.EpochStore.InsertEpoch(ctx, e)
}

// TestOfTwoOperatorsOneWins: the other learns what stands.
func TestOfTwoOperatorsOneWins(t *testing.T) {
	inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, _ *bytes.Buffer) {
		r.store = faster{r.store}
		err := r.hand(t.Context(), handing{schema.HomeChange{Home: "eu", To: "us"}, false})
		if err == nil || !strings.Contains(err.Error(), "ann decided that region ap serves home eu (epoch 2): drill") {
			t.Errorf("hand = %v, want that ann was faster", err)
		}
		if got := serving(t, r, "eu"); got.Region != "ap" || got.Number != 2 {
			t.Errorf("epoch %d of home eu is of region %s, want 2 of ap", got.Number, got.Region)
		}
	})
}

func TestRegionList(t *testing.T) {
	inRegions(t, []string{"us"}, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
		if err := r.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(out.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		said := strings.Join(lines, "\n")
		for _, want := range []string{"eu 1 eu ", "us 1 us ", "\neu no", "\nus yes"} {
			if !strings.Contains(said, want) {
				t.Errorf("list says\n%s\nwant a line with %q", said, want)
			}
		}
	})
}

// opened is a store that stays open.
type opened struct{ *embedded.Store }

func (opened) Close() error { return nil }

// syncing is a store of several data centres. It notes what is compared.
type syncing struct {
	opened
	compared chan schema.Partition
	fails    bool
}

func (syncing) SyncShard(context.Context, schema.Shard) (int, error) { return 1, nil }

func (s syncing) SyncPartition(_ context.Context, p schema.Partition) (int, error) {
	s.compared <- p
	if s.fails {
		return 0, schema.ErrUnavailable
	}
	return 2, nil
}

// TestAMoveComparesFirst: the rows of the home alone, before anything is announced. Where a data centre
// does not answer, nothing is moved. After a long cut the region that takes over looks at all of it.
func TestAMoveComparesFirst(t *testing.T) {
	move := handing{schema.HomeChange{Home: "eu", To: "us", By: "ann", Sync: true, Since: 20 * time.Minute}, false}
	for name, row := range map[string]struct {
		since time.Duration
		fails bool
		said  string
		epoch int64
		older bool // cursors go back
	}{
		"a short cut":                   {20 * time.Minute, false, "compared what was due from", 2, false},
		"a long cut":                    {5 * time.Hour, false, "shard 0: finished up to", 2, true},
		"a data centre does not answer": {20 * time.Minute, true, "--sync=false", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
				rows, err := r.open()
				if err != nil {
					t.Fatal(err)
				}
				s := syncing{rows.(opened), make(chan schema.Partition, 10_000), row.fails}
				was, err := s.Cursors(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r.open = func() (homes.RowStore, error) { return s, nil }
				n := &noted{EpochStore: r.store}
				r.store = n
				move := move
				move.Since = row.since
				err = r.hand(t.Context(), move)
				said := out.String()
				if err != nil {
					said += err.Error()
				}
				if (err != nil) != row.fails || !strings.Contains(said, row.said) {
					t.Errorf("hand says %s, %v; want %q", out, err, row.said)
				}
				if got := serving(t, r, "eu"); got.Number != row.epoch || row.fails && len(n.announced) > 0 {
					t.Errorf("epoch %d stands, announced %v, want %d", got.Number, n.announced, row.epoch)
				}
				close(s.compared)
				of := make(map[schema.Shard]int)
				for p := range s.compared {
					of[p.Shard]++
				}
				if least := int(row.since / time.Minute); !row.fails && (of[0] < least || of[1] != of[0]) || of[2]+of[3] > 0 {
					t.Errorf("compared so many minutes of each shard: %v, want %d of 0 and 1", of, least)
				}
				is, err := s.Cursors(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i := range is {
					if back := is[i].Settled < was[i].Settled; back != (row.older && is[i].Shard < 2) {
						t.Errorf("cursor of shard %d went from %+v to %+v", is[i].Shard, was[i], is[i])
					}
				}
			})
		})
	}
}

// TestOneCopyIsNotCompared: it is said, and a move goes on.
func TestOneCopyIsNotCompared(t *testing.T) {
	inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, out *bytes.Buffer) {
		if err := r.changer().Compare(t.Context(), schema.HomeChange{Home: "eu"}); err != nil || !strings.Contains(out.String(), "there is one copy of the rows of home eu") {
			t.Errorf("sync says %q, %v, want that there is nothing to compare", out, err)
		}
	})
}

// serving returns the newest epoch of a home.
func serving(t *testing.T, r regionsShared, home string) schema.Epoch {
	t.Helper()
	newest, err := r.store.Epochs(t.Context(), []string{home})
	if err != nil {
		t.Fatal(err)
	}
	return newest[0]
}

// inRegions runs f in a bubble with two regions, of which some are alive.
func inRegions(t *testing.T, alive []string, f func(t *testing.T, r regionsShared, out *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		all, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 3}}}})
		if err != nil {
			t.Fatal(err)
		}
		both := []string{"eu", "us"}
		for _, name := range both {
			_, err := store.InsertEpoch(t.Context(), schema.Epoch{Home: name}.Next(name, "test", "the first", time.Now()))
			if err = errors.Join(err, store.PutBeat(t.Context(), schema.Beat{Region: name, Node: "n", Count: 1, At: time.Now()})); err != nil {
				t.Fatal(err)
			}
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(schema.HomeLeaseRead)
			defer tick.Stop()
			for count := int64(2); ; count++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for _, region := range alive {
					if err := store.PutBeat(context.Background(), schema.Beat{Region: region, Node: "n", Count: count, At: time.Now()}); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		out := new(bytes.Buffer)
		f(t, regionsShared{store: store, homes: both, regions: both, out: out, shards: all.Shards, open: func() (homes.RowStore, error) { return opened{store}, nil }}, out)
		close(stop)
		<-stopped
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
