package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/deploy/local/cluster"
)

// largest is how large a picture for documents may be, in bytes.
const largest = 200_000

// TestScreenshots takes pictures of the page for documents: make console-screenshots. It takes some
// minutes, since they show minutes that have passed.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	switch {
	case dir == "":
		t.Skip("pictures are taken by make console-screenshots")
	case os.Getenv("SCREENSHOTS_OF") == "all":
		everyView(t, dir)
		return
	}
	need(t)
	take := func(p *Page, name string, height int64) {
		t.Helper()
		p.Resize(1280, height)
		p.Settled()
		file := filepath.Join(dir, "console-"+name+".png")
		p.Picture(file, false)
		if is, err := os.Stat(file); err != nil || is.Size() > largest {
			t.Errorf("the picture %s has %d bytes, more than %d: %v", file, is.Size(), largest, err)
		}
	}

	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3, Program: path})
	node, sink := Ask(t, c.APIs()[0], "", ""), StartSink(t)
	shop := openShop(t, node, sink)
	p := openView(t, c.APIs()[0]+"/console/", "#/", InZone("Europe/Berlin"), Sized(1280, 900))

	// A workflow that is under way.
	run, err := node.Workflows.Trigger(t.Context(), "nightly-books", map[string]any{"day": "2027-03-28"})
	id := must(t, run, err).ID.String()
	sink.Await(t, "/hold/ledger", 1)
	p.Open("#/workflow-runs/" + id)
	p.See("running")
	take(p, "workflow-run", 900)

	// A run that was tried again.
	p.Open("#/runs/" + shop.retried.String())
	p.See("succeeded")
	take(p, "run", 900)

	shop.awaitMinutes(t)
	p.Open("#/cluster")
	p.See("The cluster is well")
	take(p, "cluster", 900)
	p.Open("#/")
	p.See("≈ due")
	take(p, "overview", 1180)
	p.Theme(true)
	take(p, "overview-dark", 1180)
}

// everyView takes a picture of each view as a whole, and of some in dark and on a phone, for who
// looks after the page.
func everyView(t *testing.T, dir string) {
	need(t)
	w := NewWorld(t)
	for _, view := range Views {
		p := openView(t, w.Server.Console(), view.Place(w), InZone("Europe/Berlin"), Sized(1280, 800))
		name := filepath.Join(dir, strings.NewReplacer(",", "", " ", "-").Replace(strings.ToLower(view.Name)))
		p.Picture(name+".png", true)
		p.Theme(true)
		p.Picture(name+"-dark.png", true)
		p.Theme(false)
		p.Resize(360, 740)
		p.Settled()
		p.Picture(name+"-phone.png", true)
	}
}

// A shop is what pictures for documents show: a shop's jobs.
type shop struct {
	node    *API
	first   time.Time    // the first minute with many runs
	retried client.RunID // a run that failed once
}

// shownMinutes is how many minutes of runs pictures show.
const shownMinutes = 4

// openShop makes the jobs of a shop.
func openShop(t *testing.T, node *API, sink *Sink) *shop {
	t.Helper()
	s := &shop{node: node, first: time.Now().Add(40 * time.Second).Truncate(time.Second)}
	once := client.RetryPolicy{MaxAttempts: 1}
	quick := client.RetryPolicy{Initial: client.Duration(2 * time.Second), Jitter: "none"}
	for name, call := range map[string]*client.Call{
		"send-email":    client.HTTP(sink.URL + "/ok/email"),
		"charge-card":   client.HTTP(sink.URL + "/refuse/card").Retry(once),
		"sync-stock":    client.HTTP(sink.URL + "/first/stock").Retry(quick),
		"render-labels": client.HTTP(sink.URL + "/ok/labels"),
	} {
		_, err := node.Tasks.Put(t.Context(), name, call, client.TaskSettings{})
		orFail(t, err)
	}
	retried, err := node.Jobs.Create(t.Context(), client.NewJob(client.Task("sync-stock")).Payload(map[string]any{"shop": "berlin", "articles": 412}))
	s.retried = runOf(t, must(t, retried, err))
	node.AwaitRun(s.retried, client.Succeeded)

	call := func(path string) *client.Call { return client.HTTP(sink.URL + path).Retry(once) }
	books := client.NewWorkflow("nightly-books").Label("team", "billing")
	orders := books.Step("read-orders", call("/list/orders"))
	invoices := books.Step("write-invoices", call("/echo/invoice")).After(orders).
		ForEach(orders.Output("/files"), client.MaxConcurrent(2)).Payload(map[string]any{"file": client.Item("")})
	stock := books.Step("count-stock", call("/ok/stock"))
	ledger := books.Step("post-ledger", call("/hold/ledger")).After(invoices, stock)
	approve := books.Step("approve", client.WaitForEvent("books.approved")).After(ledger)
	books.Step("close-month", call("/ok/close")).After(approve)
	books.Step("tell-somebody", call("/ok/alert")).After(ledger).When(client.AnyFailed)
	_, err = node.Workflows.Put(t.Context(), books)
	orFail(t, err)

	// Twenty runs a second for the minutes that are shown, then an hour with herds.
	var lines [][]byte
	add := func(task string, at time.Time) {
		line, err := json.Marshal(map[string]any{"task": task, "schedule": map[string]any{"at": at.UTC()}, "labels": map[string]any{"team": "billing"}})
		orFail(t, err)
		lines = append(lines, line)
	}
	tasks := []string{"send-email", "render-labels", "send-email", "sync-stock", "render-labels", "send-email"}
	for i := range 20 * 60 * shownMinutes {
		task := tasks[i%len(tasks)]
		if i%97 == 0 {
			task = "charge-card"
		}
		add(task, s.first.Add(time.Duration(i)*50*time.Millisecond))
	}
	for i := range 60 {
		at := s.first.Add(time.Duration(shownMinutes+i) * time.Minute).Truncate(time.Minute)
		n := 80 + 60*(i%7)
		if i%15 == 0 {
			n = 1500
		}
		for range n {
			add("send-email", at)
		}
	}
	for part := range slices.Chunk(lines, 1000) {
		node.Do("POST", "/v1/imports?results=errors", bytes.Join(part, []byte("\n")), nil)
	}
	return s
}

// awaitMinutes waits until the minutes that are shown have ended and were counted.
func (s *shop) awaitMinutes(t *testing.T) {
	t.Helper()
	there, ok := await((shownMinutes+2)*time.Minute, func() (bool, string) {
		full := slices.DeleteFunc(minutesOf(t, s.node, s.first), func(m minuteCounts) bool { return m.Running || m.Started == 0 })
		return len(full) >= shownMinutes, fmt.Sprint(len(full))
	})
	if !ok {
		t.Fatalf("%s minutes were counted, want %d", there, shownMinutes)
	}
}
