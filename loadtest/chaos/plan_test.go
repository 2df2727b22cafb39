package chaos

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func TestPlansAreComplete(t *testing.T) {
	seen := map[Scenario]bool{}
	for _, p := range Plans {
		if seen[p.Name] {
			t.Errorf("%s is declared twice", p.Name)
		}
		seen[p.Name] = true
		if p.Does == "" || p.Promises == "" || p.Takes <= 0 || p.Members.Cassandra == 0 || p.Members.NATS == 0 || p.Members.Nodes == 0 {
			t.Errorf("%s = %+v, want what is done and promised, how long it takes, and its members", p.Name, p)
		}
		if l := p.Load; l != nil && float64(l.Rate)*l.Span.Seconds() > mostSteady {
			t.Errorf("%s has %d runs a second for %s, want at most %d in all", p.Name, l.Rate, l.Span, mostSteady)
		}
		if c := p.Course; (c.Late == nil) != (p.Load != nil) || p.Name.Loads() && c.Jobs == 0 && c.Rate == 0 {
			t.Errorf("%s: course %+v, want jobs or a rate, a bound on lateness, and no steady load", p.Name, c)
		}
		if l := p.Load; l != nil && (l.Rate <= 0 || l.Span <= 0 || l.MaxLateness <= 0 || l.Mix == Mix{} || len(l.Faults(p.Members)) == 0) {
			t.Errorf("%s: load %+v, want a rate, a span, a mix, faults and a bound on lateness", p.Name, l)
		}
	}
	var list bytes.Buffer
	if err := WritePlans(&list); err != nil {
		t.Fatal(err)
	}
	for _, p := range Plans {
		if !strings.Contains(list.String(), string(p.Name)+" ") || !strings.Contains(list.String(), p.Promises) {
			t.Errorf("WritePlans lacks %s:\n%s", p.Name, list.String())
		}
	}
}

// needDisks are the acts for which a member needs a disk of its own.
var needDisks = map[Act]bool{ActPowerOff: true, ActFill: true, ActEmpty: true, ActStick: true, ActLoosen: true}

// Whatever a plan breaks it mends, within the span, and every member that it names is there.
func TestPlansMendWhatTheyBreak(t *testing.T) {
	mends := map[Act]Act{
		ActKill: ActStart, ActStop: ActStart, ActFreeze: ActThaw, ActCut: ActHeal,
		ActPowerOff: ActPowerOn, ActFill: ActEmpty, ActStick: ActLoosen,
		ActRegionKill: ActRegionStart, ActRegionCut: ActRegionHeal,
	}
	for _, p := range Plans {
		if p.Load == nil {
			continue
		}
		if err := p.Load.missing(p.Members); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		broken := map[string]Act{}
		for _, c := range p.Load.Faults(p.Members) {
			for i, s := range c {
				if i > 0 && s.at < c[i-1].at || s.at > p.Load.Span {
					t.Errorf("%s: step %v is out of order, or after the span of %s", p.Name, s, p.Load.Span)
				}
				if s.act == ActCut && !p.Members.Namespaces {
					t.Errorf("%s cuts links, and its members have no namespaces", p.Name)
				}
				if needDisks[s.act] && !p.Members.Disks {
					t.Errorf("%s: %v, and its members have no disks of their own", p.Name, s)
				}
				if s.act == ActStartNewer || s.act == ActStartOlder {
					delete(broken, s.member)
				}
				if mend, ok := mends[s.act]; ok {
					broken[s.member] = mend
				} else if broken[s.member] == s.act {
					delete(broken, s.member)
				}
			}
		}
		if len(broken) > 0 {
			t.Errorf("%s leaves %v to be done", p.Name, broken)
		}
	}
}

func TestLinksOf(t *testing.T) {
	members := []string{"carillon-1", "carillon-2", "nats-1", "nats-2"}
	rows := []struct {
		text string
		want []link
	}{
		{between("carillon-1", "nats-2"), []link{{"carillon-1", "nats-2"}, {"nats-2", "carillon-1"}}},
		{toward("nats", "carillon-2"), []link{{"nats-1", "carillon-2"}, {"nats-2", "carillon-2"}}},
		{between("carillon-2", "carillon"), []link{{"carillon-2", "carillon-1"}, {"carillon-1", "carillon-2"}}},
		{"carillon-2", nil},
		{between("carillon-3", "nats"), nil},
		{toward("carillon-1", "carillon-1"), nil},
	}
	for _, row := range rows {
		got, err := linksOf(row.text, members)
		if !slices.Equal(got, row.want) || (err == nil) != (row.want != nil) {
			t.Errorf("linksOf(%q) = %v, %v, want %v", row.text, got, err, row.want)
		}
	}
}

func TestAgreement(t *testing.T) {
	const both = `{"members":[{"name":"b"},{"name":"a"}],"shards":[{"shard":0,"owner":"a"},{"shard":1,"owner":"b"}]}`
	rows := []struct {
		name  string
		views map[string]string
		says  string // part of the answer; "" = they agree
	}{
		{"equal", map[string]string{"a": both, "b": both}, ""},
		{"one silent", map[string]string{"a": both}, "1 of 2 nodes answer"},
		{"one alone", map[string]string{"a": both, "b": `{"members":[{"name":"b"}]}`}, "b sees"},
		{"a dead member", map[string]string{"a": strings.ReplaceAll(both, `{"name":"b"}`, `{"name":"b"},{"name":"c"}`), "b": both}, "a sees"},
		{"two owners", map[string]string{"a": both, "b": strings.ReplaceAll(both, `"owner":"b"`, `"owner":"a"`)}, "different owners"},
		{"no owner", map[string]string{"a": strings.ReplaceAll(both, `"owner":"b"`, `"owner":""`), "b": strings.ReplaceAll(both, `"owner":"b"`, `"owner":""`)}, "no owner of shard 1"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			views := map[string]view{}
			for node, text := range row.views {
				var v view
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				views[node] = v
			}
			got := agreement(views, []string{"b", "a"})
			if row.says == "" && got != "" || !strings.Contains(got, row.says) {
				t.Errorf("agreement = %q, want %q", got, row.says)
			}
		})
	}
}

func TestSteadyLoadSaysWhatDidNotHappen(t *testing.T) {
	r := Report{Scenario: CutStore, Judged: true, Events: []Event{{Act: ActCut}}, Broken: []string{"views differ"}}
	r.Check.Guarantees = []check.GuaranteeCount{{Guarantee: check.AtLeastOnce, Runs: 1}, {Guarantee: check.EffectivelyOnce, Runs: 1}}
	faults := strings.Join(r.Faults(), "; ")
	for _, want := range []string{"views differ", "nothing was run under at_most_once", "no packet was dropped"} {
		if !strings.Contains(faults, want) {
			t.Errorf("faults = %q, want %q among them", faults, want)
		}
	}
}

func TestSteadyLoadFollowsItsPlan(t *testing.T) {
	p, _ := CutStore.Plan()
	cfg := Config{Scenario: CutStore, Rate: 10, Cluster: p.Members, Dir: "d", Program: "p"}
	if err := cfg.Validate(); err != nil {
		t.Errorf("Validate = %v, want nil", err)
	}
	if got := cfg.withDefaults(); got.Jobs != int(10*p.Load.Span/time.Second) || got.Span != p.Load.Span || !got.Cluster.Namespaces {
		t.Errorf("withDefaults = %d jobs in %s, namespaces %t, want 10 a second for %s in namespaces", got.Jobs, got.Span, got.Cluster.Namespaces, p.Load.Span)
	}
	cfg.Cluster.Nodes, cfg.Rate = 1, maxRate+1
	err := cfg.Validate()
	for _, want := range []string{`"carillon-2 and cassandra" names no links`, "the rate is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q", err, want)
		}
	}
	if err := (Config{Scenario: Calm, Rate: 1, Cluster: p.Members, Dir: "d", Program: "p"}).Validate(); err == nil || !strings.Contains(err.Error(), "a rate is of") {
		t.Errorf("Validate of calm with a rate = %v, want it refused", err)
	}
}
