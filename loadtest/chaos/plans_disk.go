package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/nats"
)

// Scenarios in which members lose power, or disks fail. Each Cassandra and NATS has a disk of its
// own.
const (
	PowerCassandra   Scenario = "power-cassandra"
	PowerNATS        Scenario = "power-nats"
	PowerAll         Scenario = "power-all"
	FullNATS         Scenario = "full-nats"
	FullCassandra    Scenario = "full-cassandra"
	StuckNATS        Scenario = "stuck-nats"
	CorruptNATS      Scenario = "corrupt-nats"
	ReplaceCassandra Scenario = "replace-cassandra"
)

// The acts on power and disks, each of one or several members at one instant (see together).
const (
	ActPowerOff Act = "cut the power of"
	ActPowerOn  Act = "give power back to"
	ActFill     Act = "fill the disk of"
	ActEmpty    Act = "make room on the disk of"
	ActStick    Act = "freeze the disk of"
	ActLoosen   Act = "thaw the disk of"
	// ActCorrupt kills servers and spoils stored messages; ActSpoilMeta spoils the descriptions of
	// streams. Both start the servers again.
	ActCorrupt   Act = "flip bytes in the blocks of"
	ActSpoilMeta Act = "flip bytes in the descriptions of"
	// ActReplace kills a Cassandra and has one without data take its place.
	ActReplace Act = "replace"
	// ActRestart kills those that still run and starts all.
	ActRestart Act = "start again"
)

// togetherWord joins members to which one act is done.
const togetherWord = ", "

// together names members to which one act is done.
func together(members ...string) string { return strings.Join(members, togetherWord) }

// allOf names all members of the kinds.
func allOf(members cluster.Spec, kinds ...string) string {
	var all []string
	for _, name := range memberNamesOf(members) {
		for _, kind := range kinds {
			if strings.HasPrefix(name, kind+"-") {
				all = append(all, name)
			}
		}
	}
	return together(all...)
}

const (
	// powerFor is how long a power cut lasts.
	powerFor = 5
	// dark is how late runs may be after a power cut of all of Cassandra: until it serves again,
	// and the backlog is done.
	dark = powerFor*time.Second + startsAgain + recovers
)

func withDisks(s cluster.Spec) cluster.Spec {
	s.Disks = true
	return s
}

// powerCut declares that members lose their power and get it back.
func powerCut(members string, at seconds) chain {
	return chain{do(at, ActPowerOff, members), do(at+powerFor, ActPowerOn, members)}
}

var diskPlans = []Plan{
	{
		Name: PowerCassandra, Takes: 6 * time.Minute, Members: withDisks(three),
		Does:     "all Cassandra lose their power at once: only what was synced is left (F20)",
		Promises: "commit log group: nothing acknowledged is lost; periodic: at most what its sync period covers",
		Load: steady(3*time.Minute, dark, func(m cluster.Spec) []chain {
			return []chain{append(powerCut(allOf(m, "cassandra"), 40), agree(50))}
		}),
	},
	{
		Name: PowerNATS, Takes: 7 * time.Minute, Members: withDisks(three),
		Does:     "one NATS loses its power, then two of three, then all (F12)",
		Promises: "nothing missed: what the queue lost is published again",
		Load: steady(4*time.Minute, 30*time.Second+2*deathCosts, func(m cluster.Spec) []chain {
			var c chain
			for i := range m.NATS {
				var names []string
				for j := range i + 1 {
					names = append(names, numbered("nats", m.NATS-j))
				}
				at := seconds(20 + 70*i)
				c = append(append(c, powerCut(together(names...), at)...), agree(at+powerFor))
			}
			return []chain{c}
		}),
	},
	{
		Name: PowerAll, Takes: 6 * time.Minute, Members: withDisks(three),
		Does:     "every machine loses its power at once (F12, F20)",
		Promises: "commit log group: every acknowledged job runs",
		Load: steady(3*time.Minute, dark+deathCosts, func(m cluster.Spec) []chain {
			return []chain{append(powerCut(allOf(m, "cassandra", "nats", "carillon"), 40), agree(50))}
		}),
	},
	{
		Name: FullNATS, Takes: 5 * time.Minute, Members: withDisks(three),
		Does:     "the disks of all NATS are full for 40 s; then room is made, and they start again (F15)",
		Promises: "nothing missed: no server takes messages meanwhile, nor by itself when there is room",
		Load: steady(3*time.Minute, 40*time.Second+recovers+deathCosts, func(m cluster.Spec) []chain {
			// A server whose disk is full switches JetStream off until it starts again.
			all := allOf(m, "nats")
			return []chain{{
				do(30, ActFill, all),
				do(70, ActEmpty, all),
				do(70, ActRestart, all),
				agree(80),
			}}
		}),
	},
	{
		Name: FullCassandra, Takes: 6 * time.Minute, Members: withDisks(three),
		Does:     "the disks of all Cassandra are full for 40 s; then room is made, and they start again (F17)",
		Promises: "nothing that was acknowledged is lost",
		Load: steady(4*time.Minute, 40*time.Second+dark, func(m cluster.Spec) []chain {
			all := allOf(m, "cassandra")
			return []chain{{
				do(30, ActFill, all),
				do(70, ActEmpty, all),
				do(70, ActRestart, all),
				agree(80),
			}}
		}),
	},
	{
		Name: StuckNATS, Takes: 5 * time.Minute, Members: withDisks(three),
		Does:     "the disk of the NATS that leads the stream answers nobody for 10 s, later those of all (F15)",
		Promises: "nothing missed; what timed out and was stored starts once",
		Load: steady(3*time.Minute, 10*time.Second+2*deathCosts, func(m cluster.Spec) []chain {
			all := allOf(m, "nats")
			return []chain{{
				do(20, ActStick, streamLeader),
				do(30, ActLoosen, streamLeader),
				do(80, ActStick, all),
				do(90, ActLoosen, all),
				agree(100),
			}}
		}),
	},
	{
		Name: CorruptNATS, Takes: 6 * time.Minute, Members: three,
		Does:     "blocks, then descriptions of streams are spoiled: of one NATS, then of all (F13)",
		Promises: "nothing missed: streams that cannot be read are made again, and filled again",
		Load: steady(4*time.Minute, 30*time.Second+2*deathCosts, func(m cluster.Spec) []chain {
			one, all := numbered("nats", m.NATS), allOf(m, "nats")
			return []chain{{
				do(20, ActCorrupt, one),
				do(60, ActSpoilMeta, one),
				do(100, ActCorrupt, all),
				do(150, ActSpoilMeta, all),
				agree(170),
			}}
		}),
	},
	{
		Name: ReplaceCassandra, Takes: 6 * time.Minute, Members: three,
		Does:     "one Cassandra of three is killed and its data wiped; an empty one takes its place (F17)",
		Promises: "nothing missed",
		Load: steady(3*time.Minute, deathCosts+recovers, func(m cluster.Spec) []chain {
			return []chain{{do(30, ActReplace, numbered("cassandra", m.Cassandra)), agree(100)}}
		}),
	},
}

// diskActs are the acts of these scenarios.
var diskActs = acts{
	ActPowerOff: func(ctx context.Context, r *run, members string) (string, error) {
		r.sample()
		return r.queued(ctx), r.cluster().PowerOff(ctx, strings.Split(members, togetherWord)...)
	},
	ActPowerOn: func(ctx context.Context, r *run, members string) (string, error) {
		note, err := r.powerOn(ctx, strings.Split(members, togetherWord))
		return r.queued(ctx) + note, err
	},
	ActRestart: func(ctx context.Context, r *run, members string) (string, error) {
		r.sample()
		names := strings.Split(members, togetherWord)
		pids := r.cluster().Status().PIDs()
		var died []string
		for _, name := range names {
			if pids[name] == 0 {
				died = append(died, name)
			} else if err := r.cluster().Kill(ctx, name); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d of %d had ended by themselves", len(died), len(names)), r.cluster().PowerOn(ctx, names...)
	},
	ActCorrupt:   spoil(func(name string) bool { return strings.HasSuffix(name, ".blk") }),
	ActSpoilMeta: spoil(func(name string) bool { return strings.HasPrefix(name, "meta.") || name == "index.db" }),
	ActReplace: func(ctx context.Context, r *run, member string) (string, error) {
		r.sample()
		return "", r.cluster().Replace(ctx, member)
	},
	ActFill:   onDisks((*cluster.Cluster).FillDisk),
	ActEmpty:  onDisks((*cluster.Cluster).EmptyDisk),
	ActStick:  onDisks((*cluster.Cluster).FreezeDisk),
	ActLoosen: onDisks((*cluster.Cluster).ThawDisk),
}

// powerOn gives members their power back, and starts them. A NATS that cannot open what it kept is
// never ready again by itself, so it is replaced, as its operator would do; the note says so.
func (r *members) powerOn(ctx context.Context, names []string) (note string, err error) {
	err = r.cluster().PowerOn(ctx, names...)
	if err == nil {
		return "", nil
	}
	damaged := r.cluster().DamagedNATS(ctx)
	if len(damaged) == 0 {
		return "", err
	}
	for _, name := range damaged {
		if err := r.cluster().Replace(ctx, name); err != nil {
			return "", err
		}
	}
	note = fmt.Sprintf("; %s could not open what was left of a stream, and was replaced", together(damaged...))
	pids := r.cluster().Status().PIDs()
	names = slices.DeleteFunc(names, func(name string) bool { return pids[name] != 0 })
	return note, r.cluster().PowerOn(ctx, names...)
}

func onDisks(do func(*cluster.Cluster, string) error) func(context.Context, *run, string) (string, error) {
	return func(_ context.Context, r *run, members string) (string, error) {
		var faults []error
		for _, name := range strings.Split(members, togetherWord) {
			faults = append(faults, do(r.cluster(), name))
		}
		return "", errors.Join(faults...)
	}
}

// spoil kills servers, spoils the files of their streams that meant names, and starts the servers
// again.
func spoil(meant func(name string) bool) func(context.Context, *run, string) (string, error) {
	return func(ctx context.Context, r *run, members string) (string, error) {
		r.sample()
		note := r.queued(ctx)
		names := strings.Split(members, togetherWord)
		spoiled := 0
		for _, name := range names {
			if err := r.cluster().Kill(ctx, name); err != nil {
				return "", err
			}
		}
		for _, name := range names {
			n, err := flipBytes(filepath.Join(r.cfg.Dir, "cluster", name, "data"), func(path string) bool {
				return strings.Contains(path, nats.StreamPrefix) && meant(filepath.Base(path))
			})
			if err != nil {
				return "", err
			}
			spoiled += n
		}
		if spoiled == 0 {
			r.broken("%s: there was no file to spoil", members)
		}
		err := r.cluster().PowerOn(ctx, names...)
		return fmt.Sprintf("%s; %d files spoiled; then %s", note, spoiled, r.queued(ctx)), err
	}
}

// flipEvery is the distance of two bytes that are flipped in a file.
const flipEvery = 61

// flipBytes inverts bytes of the meant files below a folder, and returns the number of files.
func flipBytes(dir string, meant func(path string) bool) (n int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !meant(path) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			return err
		}
		for i := len(text) / 2 % flipEvery; i < len(text); i += flipEvery {
			text[i] = ^text[i]
		}
		n++
		return os.WriteFile(path, text, d.Type().Perm())
	})
	if err != nil {
		return n, fmt.Errorf("flip bytes: %w", err)
	}
	return n, nil
}

// lostArgs name the spans whose writes a power cut may have taken: with a periodic commit log the
// last sync period.
func (r judging) lostArgs() []string {
	if r.cfg.Cluster.CommitLog != cluster.CommitLogPeriodic {
		return nil
	}
	var args []string
	for _, e := range r.report.Events {
		if e.Act == ActPowerOff && strings.Contains(e.Member, "cassandra-") {
			from := e.Began.Add(-cluster.CommitLogPeriod)
			args = append(args, "--lost", from.Format(time.RFC3339Nano)+","+e.Ended.Format(time.RFC3339Nano))
		}
	}
	return args
}

// queued returns how many messages the streams hold, by the first server that answers.
func (r *members) queued(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, queuedLimit)
	defer cancel()
	for _, url := range r.cluster().NATSURLs() {
		all, err := nats.Streams(ctx, url)
		if err != nil {
			continue
		}
		n := 0
		for _, s := range all {
			n += s.Messages
		}
		return fmt.Sprintf("%d messages in the stream", n)
	}
	return "no NATS tells of its stream"
}

// queuedLimit bounds the question after the stream.
const queuedLimit = 2 * time.Second
