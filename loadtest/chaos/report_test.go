package chaos

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/process"
)

func good() *Report {
	return &Report{
		Scenario: Faults, Command: "carillon-load chaos", Commit: "abc", Began: noon, FirstDue: noon, Judged: true, Machine: "2 cores",
		Versions: map[string]string{"go": "go1.26.8", "cassandra": "5.0.6", "java": "17", "nats": "2.15.2"},
		Settings: Settings{
			Cluster:     cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2, Profile: cluster.ProfileTest, CommitLog: cluster.CommitLogGroup},
			Replication: 3, StreamReplicas: 3, Jobs: 100_000, LeadSeconds: 20, SpanSeconds: 60, Keyed: true,
		},
		Imports: []ImportResult{{Source: "main", Lines: 94_500, Created: 94_400, Existing: 100, Sends: 2, Seconds: 9}},
		Events: []Event{
			{Act: ActKill, Member: "carillon-1", Began: noon.Add(10 * time.Second), Ended: noon.Add(10 * time.Second), AfterFirstDue: 10},
			{Act: ActStream, Member: "nats-1", Note: "carillon_runs_0 with 7 messages", AfterFirstDue: 30},
			{Act: ActStart, Member: "carillon-1", Began: noon.Add(20 * time.Second), Ended: noon.Add(31 * time.Second), AfterFirstDue: 20},
		},
		Phases: []Phase{
			{Name: "idle", Seconds: 5, CPU: map[string]float64{"carillon-1": 0.5, "carillon-2": 1}},
			{Name: "main import", Seconds: 9, CPU: map[string]float64{"cassandra-1": 9.45, "cassandra-2": 0.945}},
			{Name: "runs", Seconds: 80, CPU: map[string]float64{"carillon-1": 10, "nats-1": 2, "sink": 1, "load": 0.5}},
		},
		Check: check.Report{Asked: 100_000, Acknowledged: 100_000, Done: 100_000, Reported: check.Lateness{Count: 1, P50: 1.25, Max: 4000}},
	}
}

func TestMarkdown(t *testing.T) {
	calm := good()
	calm.Scenario, calm.Events, calm.Check.Missed = Calm, nil, 3
	var out bytes.Buffer
	if err := WriteMarkdown(&out, good(), calm); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"### Chaos: faults, calm\n\n| | faults | calm |\n|---|---|---|\n",
		"| verdict | ok | **FAILED**: missed 3, early 0, unexpected 0,",
		"| missed, early, unexpected | 0, 0, 0 | 3, 0, 0 |",
		"94500 due over 60 s from 20 s after the start (with keys), 5000 due within the minute of their import, 500 immediate",
		"3 Cassandra (profile test, replication 3), 3 NATS (stream replicas 3), 2 nodes with every role",
		"commit log group, JetStream on file, sync interval default (2 min)",
		"94500 lines in 9.0 s: 10500 lines/s (2 sends)",
		"1.2 / 0.0 / 0.0 / 0.0 / 4000.0",
		"| CPU idle, s/s | carillon 0.300,",
		"cassandra 110, nats 0,",
		"carillon 100, cassandra 0, nats 20, sink 10, load 5 (over 80 s)",
		"What happened in *faults*",
		"* 10.0: kill -9 carillon-1\n* 20.0: start carillon-1 (ready after 11.0 s)\n* 30.0: delete streams nats-1 (carillon_runs_0 with 7 messages)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("WriteMarkdown lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "What happened in *calm*") {
		t.Error("WriteMarkdown tells what happened where nothing did")
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 4 {
			t.Errorf("a row without three columns: %s", line)
		}
	}
}

func TestReportFails(t *testing.T) {
	rows := []struct {
		name  string
		spoil func(*Report)
		want  string // in the faults; empty = none
	}{
		{"a good one", func(*Report) {}, ""},
		{"not judged", func(r *Report) { r.Judged = false }, "did not come to its end"},
		{"missed", func(r *Report) { r.Check.Missed = 1 }, "missed 1"},
		{"too late", func(r *Report) { r.Check.TooLate = 1 }, "too late 1"},
		{"unreadable", func(r *Report) { r.Check.Unlisted = 1 }, "unreadable 1"},
		{"not due", func(r *Report) { r.Check.NotDue = 2 }, "2 runs were not due"},
		{"an import that refused lines", func(r *Report) { r.Imports[0].Refused = 3 }, "3 refused"},
		{"an import of unknown outcome", func(r *Report) { r.Imports[0].Unknown = 4 }, "4 of unknown outcome"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := good()
			row.spoil(r)
			got := strings.Join(r.Faults(), "; ")
			if r.Failed() != (row.want != "") || !strings.Contains(got, row.want) {
				t.Errorf("Faults() = %q, Failed() = %t, want %q", got, r.Failed(), row.want)
			}
			var out bytes.Buffer
			if err := r.WriteJSON(&out); err != nil {
				t.Fatal(err)
			}
			again, err := ReadReport(&out)
			if err != nil || again.Failed() != r.Failed() || again.Settings.Jobs != r.Settings.Jobs || len(again.Events) != len(r.Events) {
				t.Errorf("ReadReport of what was written = %+v, %v, want the same", again, err)
			}
		})
	}
}

func TestRatesOf(t *testing.T) {
	var seen []check.Sighting
	for _, ms := range []int{-500, 0, 100, 900, 1500, 4000} {
		seen = append(seen, check.Sighting{At: noon.Add(time.Duration(ms) * time.Millisecond)})
	}
	if got, want := ratesOf(seen, noon), (Rates{Peak: 3, Mean: 1.25, Last: 4}); got != want {
		t.Errorf("ratesOf = %+v, want %+v", got, want)
	}
	if got := ratesOf(nil, noon); got != (Rates{}) {
		t.Errorf("ratesOf(nothing) = %+v, want zeros", got)
	}
}

// A member that was killed and started again has used what both processes used.
func TestMeterAddsUpTheProcessesOfAMember(t *testing.T) {
	used := map[int]time.Duration{1: time.Second, 2: 5 * time.Second}
	m := process.NewMeter(func(pid int) (time.Duration, error) {
		if t, ok := used[pid]; ok {
			return t, nil
		}
		return 0, errors.New("no such process")
	})
	from := mark{noon, m.Sample(map[string]int{"nats-1": 1, "sink": 2})}
	used[1] = 3 * time.Second
	m.Sample(map[string]int{"nats-1": 1, "sink": 2})
	delete(used, 1) // killed
	m.Sample(map[string]int{"nats-1": 1, "sink": 2})
	m.Sample(map[string]int{"nats-1": 0, "sink": 2})
	used[7] = time.Second // started again
	to := mark{noon.Add(4 * time.Second), m.Sample(map[string]int{"nats-1": 7, "sink": 2})}
	p := phase("all", from, to)
	if p.Seconds != 4 || p.Of("nats") != 3 || p.Of("sink") != 0 || p.Of("cassandra") != 0 {
		t.Errorf("phase = %+v, want 4 s, 2 + 1 s of nats and none of the sink", p)
	}
}
