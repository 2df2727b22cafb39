package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/peers/measure"
)

func TestTurnsAreInterleavedAndNobodyIsAlwaysFirst(t *testing.T) {
	c := comparison{
		systems: []string{"river", "asynq-off"}, protocols: []string{"A", "C"}, n: 10, rates: []int{1, 2},
		span: time.Minute, rounds: 6, first: 1, carillon: "true",
	}
	turns := c.turns()
	if want := 6 * 3 * 3; len(turns) != want {
		t.Fatalf("%d turns, want %d", len(turns), want)
	}
	firsts := map[string]int{}
	for i := 0; i < len(turns); i += 3 {
		var systems []string
		for _, u := range turns[i : i+3] {
			if u.step != turns[i].step || u.round != turns[i].round {
				t.Errorf("turns %d to %d measure %+v and %+v, want the same of every system", i, i+2, turns[i], u)
			}
			systems = append(systems, u.system)
		}
		firsts[systems[0]]++
		// Rounds that are measured apart are the same rounds.
		apart := c
		apart.rounds, apart.first = 1, turns[i].round
		if alone := apart.turns(); alone[i%9] != turns[i] {
			t.Errorf("turn %d of round %d alone = %+v, want %+v", i%9, turns[i].round, alone[i%9], turns[i])
		}
		slices.Sort(systems)
		if want := []string{"asynq-off", "carillon", "river"}; !slices.Equal(systems, want) {
			t.Errorf("turns %d to %d measure %q, want %q", i, i+2, systems, want)
		}
	}
	for system, n := range firsts {
		if n != 6 {
			t.Errorf("%s is first %d times of 18, want 6", system, n)
		}
	}
	if last := turns[len(turns)-1]; last.protocol != "C" || last.rate != 2 || last.n != 120 || last.target != measure.HTTP {
		t.Errorf("last turn = %+v, want C with 120 runs at 2 a second over http", last)
	}
}

// TestWorkflowsAreTurnsOfTheirOwn: of W each round has both parts, for systems that run workflows.
func TestWorkflowsAreTurnsOfTheirOwn(t *testing.T) {
	c := comparison{
		systems: []string{"temporal", "river"}, protocols: []string{"W"}, chains: 70, pace: 200, span: time.Minute, rounds: 3, first: 1, carillon: "true",
		log: slog.New(slog.DiscardHandler),
	}
	got := ""
	for _, u := range c.turns() {
		got += fmt.Sprintf("%d %s %s %d/%d, ", u.round, u.system, u.target, u.n, u.rate)
	}
	c.systems = []string{"temporal"}
	alone := ""
	for _, u := range c.turns() {
		alone += fmt.Sprintf("%d %s %s %d/%d, ", u.round, u.system, u.target, u.n, u.rate)
	}
	if strings.Contains(got, "river") || strings.Count(got, "temporal") != 6 || strings.Count(got, "carillon") != 6 {
		t.Errorf("turns are %q, want both parts of Carillon and Temporal, three times, and nothing of River", got)
	}
	if !strings.HasPrefix(alone, "1 carillon chains 70/0, 1 temporal chains 70/0, 1 temporal pace 2400/200, 1 carillon pace 2400/200, 2 temporal chains") {
		t.Errorf("turns are %q, want the two in turn", alone)
	}
	if r := failure(turn{step{"W", "pace", 2400, 200}, 1, "temporal"}, &c, io.EOF); r.N != 12_000 || r.Span != 60 {
		t.Errorf("a failure is of %d steps over %g s, want 12,000 over 60 s, as what is measured", r.N, r.Span)
	}
	if got := systemsFor([]string{"W"}); slices.Contains(got, "river") || !slices.Contains(got, "temporal") {
		t.Errorf("systemsFor(W) = %q, want those that run workflows", got)
	}
}

func TestCarillonIsMeasuredByItsCommand(t *testing.T) {
	c := comparison{
		systems: nil, protocols: []string{"C"}, rates: []int{3}, span: 2 * time.Second, rounds: 2, first: 1, out: t.TempDir(), log: slog.New(slog.DiscardHandler),
		// What it writes is pretty-printed and of its own round 1, as carillon-load bench has it.
		carillon: `printf '{\n "protocol": "%s", "system": "carillon", "round": 1, "n": %s, "rate": %s, "variant": "%s", "settings": {"durability": "d", "nodes": "2"},
			"runs_per_s": 12.5, "lateness_ms": {"p50": 1, "p99": 2, "p99_9": 3, "max": 4}}' $PROTOCOL $N $RATE $TARGET >$RESULTS/x.json`,
	}
	var out strings.Builder
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("run: %v", err)
	}
	if want := "| carillon | 2 | 12 | 1.0 | 2.0 | 3.0 | 4.0 |"; !strings.Contains(out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, out.String())
	}
	files, err := filepath.Glob(filepath.Join(c.out, "peers-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("results = %q, %v, want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	rounds := ""
	for line := range strings.Lines(string(text)) {
		var r struct {
			Round    int
			Settings map[string]string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		rounds += fmt.Sprint(r.Round, r.Settings["nodes"], ";") // what only Carillon's results have is kept
	}
	if rounds != "12;22;" {
		t.Errorf("rounds and nodes = %q, want 1 and 2 with two nodes", rounds)
	}
}

func TestAMeasurementThatFailsIsToldOfAndTheOthersAreMade(t *testing.T) {
	c := comparison{
		protocols: []string{"B"}, n: 5, target: measure.HTTP, rounds: 2, first: 1, out: t.TempDir(), log: slog.New(slog.DiscardHandler),
		carillon: `[ $ROUND = 2 ] && printf '{"protocol": "B", "system": "carillon", "variant": "http", "n": 5, "runs_per_s": 5}' >$RESULTS/x.json`,
	}
	var out strings.Builder
	if err := c.run(t.Context(), &out); err == nil {
		t.Error("run = nil, want an error since one failed")
	}
	if want := "| carillon | 1 of 2 | 5 |"; !strings.Contains(out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, out.String())
	}
}

func TestAComparisonThatIsToldToStopStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := comparison{protocols: []string{"B"}, n: 5, target: measure.HTTP, rounds: 2, first: 1, out: t.TempDir(), log: slog.New(slog.DiscardHandler), carillon: "true"}
	if err := c.run(ctx, &strings.Builder{}); err == nil {
		t.Error("run = nil, want the context's error")
	}
}

// TestWhatACommandStartedStopsWithIt: the shell is not all there is to stop, if the command is more than one program.
func TestWhatACommandStartedStopsWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive") // a pipe that the program has open for as long as it lives
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := comparison{log: slog.New(slog.DiscardHandler), carillon: fmt.Sprintf(`sh -c 'echo $$; exec sleep 1000' >'%s'; true`, path)}
	ended := make(chan error, 1)
	go func() {
		_, err := c.measureCarillon(ctx, turn{system: carillonName})
		ended <- err
	}()
	alive, err := os.Open(path) // waits until the program opens it
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	pid := 0
	if _, err := fmt.Fscanln(alive, &pid); err != nil || pid < 2 {
		t.Fatalf("the program says that it is %d, %v", pid, err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("measureCarillon = nil, want an error: it was told to stop")
	}
	if err := alive.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the program that the command had started still runs 30 s after the end (read %d, %v)", n, err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill it: %v", err)
		}
	}
}

func TestWhatCannotBeMeasuredIsLeftOutInWords(t *testing.T) {
	for _, row := range []struct {
		checkout string
		turns    string
		told     string
	}{
		{"", "A river, B river, C river, ", "no checkout is named"},
		{"x", "A river, B goscheduler, B river, C river, C goscheduler, ", "it does B and C"},
	} {
		var said strings.Builder
		c := comparison{
			systems: []string{"river", "goscheduler"}, protocols: []string{"A", "B", "C"}, n: 10, rates: []int{1}, target: measure.HTTP,
			span: time.Minute, rounds: 1, first: 1, checkout: row.checkout, log: slog.New(slog.NewTextHandler(&said, nil)),
		}
		got := ""
		for _, u := range c.turns() {
			got += u.protocol + " " + u.system + ", "
		}
		if got != row.turns {
			t.Errorf("with checkout %q turns are %q, want %q", row.checkout, got, row.turns)
		}
		c.tellLeftOut()
		if strings.Count(said.String(), "LEFT OUT") != 1 || !strings.Contains(said.String(), row.told) {
			t.Errorf("with checkout %q it says\n%s\nwant one line with %q", row.checkout, said.String(), row.told)
		}
	}
}
