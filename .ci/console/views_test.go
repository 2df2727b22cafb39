package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// checkView looks at a view in every way that holds for all: axe in light and dark, the keyboard alone, a
// phone and a wide screen. That nothing is asked of another host, and that no message and no violation
// comes, each page checks by itself.
func checkView(p *Page, what string) {
	p.t.Helper()
	if p.Reads("Something went wrong in this page") {
		p.t.Errorf("%s says that something went wrong in it:\n%s", what, cut(p.Text()))
	}
	p.Axe(what)
	p.Fits(what + ", 1440 wide")
	// A list that grows meanwhile takes the row that has the focus to its next page.
	still := p.Has("button", "Hold the page still")
	if still {
		p.Click("button", "Hold the page still")
	}
	p.Walk(what)
	if still {
		p.Click("button", "Keep the page up to date")
	}
	p.Resize(360, 800)
	p.Settled()
	p.Fits(what + ", 360 wide")
}

// Every view with nothing in it; those of one thing say that it is not there.
func TestViewsEmpty(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, view := range Views {
		t.Run(view.Name, func(t *testing.T) {
			t.Parallel()
			p := open(t, s.Console())
			if view.Thing {
				p.Expect("404 (Not Found)")
			}
			p.Open(view.Place(&World{}))
			checkView(p, view.Name+", empty")
		})
	}
}

// What only looks at a world shares one.
func TestWorld(t *testing.T) {
	t.Parallel()
	need(t)
	w := NewWorld(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *World)
	}{
		{"full", viewsFull},
		{"without store", viewsWithoutStore},
		{"overview", overviewAgrees},
		{"rows by keys", rowsByKeys},
		{"texts of others", textsOfOthers},
		{"below a path", belowAPath},
		{"a minute of 503", aMinuteOf503},
		{"load tests", loadAsksWhatThePageAsks},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, w)
		})
	}
}

// Every view with something of each kind in it.
func viewsFull(t *testing.T, w *World) {
	for _, view := range Views {
		t.Run(view.Name, func(t *testing.T) {
			t.Parallel()
			p := openView(t, w.Server.Console(), view.Place(w))
			checkView(p, view.Name+", full")
			p.AxeInTheme(view.Name + ", full, 360 wide") // cards in place of rows, and a menu
		})
	}
}

// Every view of a node whose store cannot be reached. It says so, and is well again by itself.
func viewsWithoutStore(t *testing.T, w *World) {
	for _, view := range Views {
		t.Run(view.Name, func(t *testing.T) {
			t.Parallel()
			proxy := StartProxy(t, w.Server.URL, "")
			proxy.Have(StoreDown)
			p := open(t, proxy.Console())
			p.Expect("503 (Service Unavailable)")
			p.Open(view.Place(w))
			p.See("The store cannot be reached")
			p.Axe(view.Name + ", without a store")
			p.Fits(view.Name + ", without a store")
			proxy.Have(NoFault)
			p.SeeNoMore("The store cannot be reached")
			p.Settled()
		})
	}
}

// The page for who has no session.
func TestLogInView(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	p := open(t, s.Console())
	p.Expect("401 (Unauthorized)")
	p.Open("")
	p.Await("heading", "Log in")
	checkView(p, "log in")
}

// The keys of every view lead where the list of keys says.
func TestKeysLeadToViews(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := open(t, s.Console())
	p.Open("#/")
	// In this order: keys that lead to where one is already move nothing.
	for _, to := range []struct{ keys, place string }{
		{"g r", "#/runs"}, {"g j", "#/jobs"}, {"g w", "#/workflows"}, {"g t", "#/tasks"}, {"g d", "#/dead-letters"}, {"g c", "#/cluster"}, {"g o", "#/"},
	} {
		p.Press(to.keys)
		p.AwaitAt(to.place)
		p.Settled()
		p.until("after "+to.keys+" the focus is on the heading of the view", func() (bool, string) { // it goes there once that is drawn
			role, name := p.Focus()
			return role == "heading", role + " " + name
		})
	}
	p.Press("?")
	p.In("dialog", "Keys").See("Go to Runs")
	p.Axe("the list of keys")
	// They can be turned off, and do nothing then (WCAG 2.1.4).
	p.In("dialog", "Keys").Check("Single keys do something", false)
	p.Press("Escape")
	p.Gone("dialog", "Keys")
	p.Open("#/jobs")
	p.Press("g r")
	p.Open("#/jobs?state=active") // what was pressed before has been seen
	if at := p.At(); !strings.HasPrefix(at, "#/jobs") {
		t.Errorf("keys that are turned off lead to %s", at)
	}
}

// What a person does with the rows of a table by keys, while the list is kept up to date.
func rowsByKeys(t *testing.T, w *World) {
	p := openView(t, w.Server.Console(), "#/jobs")
	p.Await("link", "nightly-report")
	p.Press("j")
	_, first := p.Focus()
	p.Press("j")
	role, second := p.Focus()
	if role != "link" || first == "" || second == first {
		t.Fatalf("j j leads from %q to the %s %q, want the link of the next row", first, role, second)
	}
	// The focus stays where it is when the list is asked for anew.
	asked := p.watch.requests("GET", "/v1/jobs")
	p.until("the list was asked for twice more", func() (bool, string) {
		n := p.watch.requests("GET", "/v1/jobs")
		return n >= asked+2, fmt.Sprintf("%d of %d", n-asked, 2)
	})
	if _, name := p.Focus(); name != second {
		t.Errorf("after the list was asked for anew the focus is on %q, want %q", name, second)
	}
	p.Press("k")
	if _, name := p.Focus(); name != first {
		t.Errorf("k leads to %q, want %q", name, first)
	}
	p.Press("Enter")
	p.AwaitAt("#/jobs/")
	p.Back()
	p.AwaitAt("#/jobs")
	p.Press("/")
	if role, name := p.Focus(); role != "searchbox" && role != "textbox" && role != "combobox" {
		t.Errorf("/ leads to the %s %q, want the search", role, name)
	}
}

// The page asks for nothing while a person holds it still, and while nobody sees it.
func TestPageHoldsStill(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p, other := openView(t, s.Console(), "#/runs"), openView(t, s.Console(), "#/runs")
	asks := func(p *Page) int { return p.watch.requests("GET", "/v1/runs") }
	still := func(how string) {
		t.Helper()
		asked, beside := asks(p), asks(other)
		other.until("a page beside it asked twice more", func() (bool, string) { return asks(other) >= beside+2, fmt.Sprint(asks(other) - beside) })
		if n := asks(p) - asked; n > 0 {
			t.Errorf("%s the page asks %d times", how, n)
		}
	}
	goesOn := func() {
		t.Helper()
		asked := asks(p)
		p.until("the page asks again", func() (bool, string) { return asks(p) > asked, "it does not" })
	}
	p.Click("button", "Hold the page still")
	p.See("held still")
	still("held still")
	p.Click("button", "Keep the page up to date")
	p.SeeNoMore("held still")
	goesOn()
	p.Hide(true)
	still("hidden")
	p.Hide(false)
	goesOn()
}

// A run that repeats one of a job is listed with it, and says so. It does not count for how the
// job does, and is no answer to why the job did not run.
func TestJobShowsReplays(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	call := client.HTTP(sink.URL + "/once/ledger").Retry(client.RetryPolicy{MaxAttempts: 1})
	_, err := api.Jobs.Put(t.Context(), "ledger", client.NewJob(call).Name("ledger").Schedule(client.Cron("0 0 1 1 *", "UTC")))
	orFail(t, err)
	first, err := api.Jobs.Trigger(t.Context(), "ledger")
	orFail(t, err)
	ended := api.AwaitRun(first.ID, client.Failed)
	replay, err := api.Runs.Retry(t.Context(), first.ID)
	orFail(t, err)
	api.AwaitRun(replay.ID, client.Succeeded)

	p := openView(t, s.Console(), "#/jobs/ledger?tab=history")
	p.See("Of the last 1 run that have ended, 0 % succeeded.")
	p.Click("summary", "As a table")
	p.In("table", "Runs of the job").InRow("succeeded").See("Repeats another run")
	checkView(p, "the history of a job with a run that repeats another")
	p.Open("#/runs/" + replay.ID.String())
	p.In("region", "Facts").See("its own: it repeats a run of ledger")
	p.In("region", "Facts").Click("link", "ledger")
	p.AwaitAt("#/jobs/ledger")
	p.Open("#/jobs/ledger?at=" + stamp(ended.DueAt))
	answer := p.In("region", "Why did it not run?")
	if answer.In("table", "Runs of the job").See("failed"); strings.Contains(answer.Text(), "Repeats another run") {
		t.Errorf("why the job did not run is answered with a run that repeats another:\n%s", answer.Text())
	}
}

// minuteCounts is what the API counts of a minute.
type minuteCounts struct {
	Minute          time.Time
	Started, Failed int
	Running         bool // it has not ended
}

// minutesOf returns what the API counts of the minutes from an instant to now.
func minutesOf(t *testing.T, node *API, from time.Time) []minuteCounts {
	t.Helper()
	var is struct{ Items []minuteCounts }
	node.Do("GET", fmt.Sprintf("/v1/stats?from=%s&to=%s", stamp(from.Truncate(time.Minute)), stamp(time.Now().Truncate(time.Minute).Add(time.Minute))), nil, &is)
	return is.Items
}

// What the overview counts is what the API counts, minute by minute, and each leads to its runs.
func overviewAgrees(t *testing.T, w *World) {
	from := time.Now().Add(-5 * time.Minute)
	p := openView(t, w.Server.Console(), "#/")
	p.In("figure", "Runs started a minute…").Click("button", "Show as a table")
	p.In("figure", "What was not as it should be…").Click("button", "Show as a table")
	started, faults := p.In("region", "Runs started a minute…"), p.In("region", "What was not as it should be…")
	clock := ""
	p.within(2*time.Minute).until("the page counts what the API counts, of each minute that has ended", func() (bool, string) {
		ended := false
		for _, m := range minutesOf(t, w.API, from) {
			if m.Running || m.Started == 0 {
				continue
			}
			clock, ended = m.Minute.UTC().Format("15:04"), true
			if row := started.InRow(clock).Text(); !slices.Contains(strings.Fields(row), fmt.Sprint(m.Started)) {
				return false, fmt.Sprintf("the API counts %d starts at %s; the page says %q", m.Started, clock, row)
			}
			if row := faults.InRow(clock).Text(); m.Failed > 0 && !slices.Contains(strings.Fields(row), fmt.Sprint(m.Failed)) {
				return false, fmt.Sprintf("the API counts %d failed attempts at %s; the page says %q", m.Failed, clock, row)
			}
		}
		return ended, "no minute has ended"
	})
	started.InRow(clock).Click("link", clock+"…")
	p.AwaitAt("#/runs?from=")
	p.In("table", "Runs that match").Await("row", "")
}
