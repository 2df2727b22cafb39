package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"carillon.dev/carillon/bucketer/client"
)

// Texts of others are shown as they are, and change nothing else.
func textsOfOthers(t *testing.T, w *World) {
	p := open(t, w.Server.Console())
	unchanged := func() {
		t.Helper()
		if title := evaluate[string](p, "document.title"); !strings.HasSuffix(title, "Carillon") {
			t.Errorf("%s: the title has become %q", p.At(), title)
		}
		if n := evaluate[int](p, "document.querySelectorAll('main b, main script, main img').length"); n != 0 {
			t.Errorf("%s: %d elements were made of a text", p.At(), n)
		}
	}
	p.Open("#/runs/" + w.run("succeeded"))
	p.Click("tab", "Payload")
	for _, text := range []string{
		`<script>document.title = 'owned'</script><b>bold</b>`, "👩", "﷽", "שלום",
		`\u202eevil gpj.exe\u202c`, // what turns the direction is said, not done
	} {
		p.In("tabpanel", "Payload").See(text)
	}
	unchanged()
	p.Click("tab", "Output")
	p.In("tabpanel", "Output").See("<b>bold</b>")
	unchanged()
	for _, place := range []string{"#/tasks", "#/tasks/charge-card", "#/events"} {
		p.Open(place)
		p.See("<b>bold</b>")
		unchanged()
	}
}

// 1 MiB of output without a space leaves the page quick and no wider than the screen.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	long := strings.Repeat("W", 60<<10)
	made, err := api.Jobs.Create(t.Context(), client.NewJob(client.HTTP(sink.URL+"/big/one")).Payload(map[string]any{long[:100]: long}))
	id := runOf(t, must(t, made, err))
	api.AwaitRun(id, client.Succeeded)
	p := openView(t, s.Console(), "#/runs/"+id.String())
	for _, tab := range []string{"Payload", "Output"} {
		p.Click("tab", tab)
		p.Settled()
		p.Fits("a run with long texts, " + tab)
		for p.Has("button", "Show all…") {
			p.Click("button", "Show all…")
			p.Fits("a run with long texts, all of " + tab)
		}
		quick(p, tab)
	}
	p.Resize(360, 800)
	p.Fits("a run with long texts, 360 wide")
	p.Open("#/runs")
	p.Fits("the list with a run of long texts")
	quick(p, "the list")
}

// quick checks that the page answers within two seconds.
func quick(p *Page, what string) {
	p.t.Helper()
	began := time.Now()
	evaluate[bool](p, "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(true))))")
	if took := time.Since(began); took > 2*time.Second {
		p.t.Errorf("%s: the page takes %v to draw", what, took)
	}
}

// A cursor that is not good any more begins the list anew, and says so.
func TestStaleCursor(t *testing.T) {
	t.Parallel()
	s, sink := serve(t), StartSink(t)
	api := Ask(t, s.URL, "", "")
	for range 60 { // more than a page
		_, err := api.Jobs.Create(t.Context(), client.NewJob(client.HTTP(sink.URL+"/ok/one")))
		orFail(t, err)
	}
	p := openView(t, s.Console(), "#/runs?last=1h")
	p.Expect("422 (Unprocessable Entity)")
	p.Expect("net::ERR_")
	p.Click("button", "by due time")
	p.Click("button", "Next page")
	p.until("the cursor stands in the address", func() (bool, string) { at := p.At(); return strings.Contains(at, "cursor="), at })
	p.See("First page")
	// A cursor is signed by a key that the node draws at its start.
	s.Stop()
	s.Start()
	p.Reload()
	p.See("The place in the list is not known any more: it begins anew.")
	p.until("the address has no cursor", func() (bool, string) { at := p.At(); return !strings.Contains(at, "cursor="), at })
	p.Await("table", "Runs that match")

	p.Open("#/runs?order=due&cursor=forged")
	p.until("the address has no cursor", func() (bool, string) { at := p.At(); return !strings.Contains(at, "cursor="), at })
	p.Await("table", "Runs that match")
}

// A session that ends while the page is open leads to the log-in, in a sentence, and back to where the
// person was.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	p := open(t, s.Console())
	p.Expect("401 (Unauthorized)")
	p.Open("#/runs?state=failed")
	logIn(p, s.Keys["operator"])
	p.AwaitAt("#/runs?state=failed")
	// The browser forgets the cookie, as it does after twelve hours.
	call(p, "forget the cookie", network.ClearBrowserCookies, cdp.Empty{})
	p.Await("heading", "Log in")
	p.See("Your session is over")
	logIn(p, s.Keys["operator"])
	p.AwaitAt("#/runs?state=failed")
	p.Await("heading", "Runs")
}

// A key that is revoked ends the pages that are open with it, within seconds.
func TestKeyIsRevoked(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	admin := Ask(t, s.URL, s.Keys["admin"], "")
	var made struct{ Key string }
	name := fmt.Sprintf("short-%d", time.Now().UnixNano())
	admin.Do("POST", "/v1/api-keys", map[string]any{"name": name, "role": "operator"}, &made)
	p := open(t, s.Console())
	p.Expect("401 (Unauthorized)")
	p.Open("#/jobs")
	logIn(p, made.Key)
	p.Await("heading", "Jobs")
	admin.Do("DELETE", "/v1/api-keys/"+name, nil, nil)
	revoked := time.Now()
	p.Await("heading", "Log in")
	p.See("Your session is over")
	if took := time.Since(revoked); took > 25*time.Second {
		t.Errorf("the page is open %v after its key was revoked, want about 10 s", took)
	}
}

// A node of another version behind the same address: the page says so, and goes on.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	path, err := nextProgram()
	if err != nil {
		t.Fatal(err)
	}
	next := startServer(t, path)
	proxy := StartProxy(t, s.URL, "")
	p := open(t, proxy.Console())
	p.Open("#/jobs")
	proxy.Switch(t, next.URL)
	p.See("A node of version " + nextVersion + " answers now")
	p.See("Load the page anew")
	p.Axe("the page beside a node of another version")
	p.Click("button", "Load it anew")
	p.SeeNoMore("answers now")
	p.Await("heading", "Jobs")
}

// A proxy that gives the node a path: nothing of the page asks outside of it.
func belowAPath(t *testing.T, w *World) {
	proxy := StartProxy(t, w.Server.URL, "/ops/carillon")
	p := open(t, proxy.Console())
	p.Open("#/")
	for _, view := range Views {
		p.Open(view.Place(w))
	}
	p.Open("#/jobs")
	p.Click("link", "nightly-report")
	p.AwaitAt("#/jobs/nightly-report")
	p.Click("link", "API")
	p.until("the documentation is below the path", func() (bool, string) {
		at := evaluate[string](p, "location.pathname")
		return strings.HasPrefix(at, "/ops/carillon/docs"), at
	})
	p.Settled()
	// The address of the node leads to the page, below the path too.
	resp, err := http.Get(proxy.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/ops/carillon/console/" {
		t.Errorf("%s/ leads to %s: %s", proxy.URL, resp.Request.URL, resp.Status)
	}
}

// A browser whose clock is wrong by an hour: the page says so, and counts by the clock of the node.
func TestClockOfTheBrowserIsWrong(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, sink := serve(t), StartSink(t)
			api := Ask(t, s.URL, "", "")
			p := open(t, s.Console(), ClockAhead(ahead))
			p.Open("#/")
			p.See("The clock of your computer is 1 h " + name)
			due := time.Now().Add(20 * time.Minute)
			made, err := api.Jobs.Create(t.Context(), client.NewJob(client.HTTP(sink.URL+"/ok/clock")).At(due))
			id := runOf(t, must(t, made, err))
			p.Open("#/runs/" + id.String())
			p.SeeAny("in 19 min", "in 20 min")
			if p.Reads("not up to date") {
				t.Error("what was just asked for counts as old")
			}
			// The list of runs around now is around the node's now.
			p.Open("#/runs?last=1h")
			p.Settled()
		})
	}
}

// 503s for a minute, from a node without a store, and from a load balancer without a node: the page
// says what is wrong in a sentence the whole time, keeps what it shows, and recovers by itself.
func aMinuteOf503(t *testing.T, w *World) {
	for name, row := range map[string]struct {
		fault Fault
		says  string
	}{
		"no store": {StoreDown, "The store cannot be reached"},
		"no node":  {NodeDown, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := StartProxy(t, w.Server.URL, "")
			p := openView(t, proxy.Console(), "#/jobs")
			p.Expect("503 (Service Unavailable)")
			p.Await("link", "nightly-report")
			proxy.Have(row.fault)
			began := time.Now()
			p.See(row.says)
			for last, asked := 0, proxy.Refused(); time.Since(began) < time.Minute; last = proxy.Refused() {
				await(time.Minute, func() (bool, string) { return proxy.Refused() > last, "" }) // it asks again
				if !p.Reads(row.says) || !p.Has("link", "nightly-report") {
					t.Fatalf("after %v of 503s the page says: %s", time.Since(began), cut(p.Text()))
				}
				if n := proxy.Refused() - asked; n > 200 {
					t.Fatalf("the page asked %d times within %v, though nobody answers", n, time.Since(began))
				}
			}
			proxy.Have(NoFault)
			p.SeeNoMore(row.says)
			p.SeeNoMore("not up to date")
		})
	}
}

// A node that is away, and one that answers nothing: a sentence, and it recovers by itself.
func TestNodeIsAway(t *testing.T) {
	t.Parallel()
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		p := open(t, s.Console())
		p.Expect("net::ERR_")
		p.Open("#/jobs")
		s.Stop()
		p.See("The node cannot be reached")
		s.Start()
		p.SeeNoMore("The node cannot be reached")
		p.SeeNoMore("not up to date")
	})
	t.Run("opened without a node", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		proxy := StartProxy(t, s.URL, "")
		p := open(t, proxy.Console())
		p.Expect("503 (Service Unavailable)")
		proxy.Have(NodeDown)
		p.Go("#/jobs")
		p.Await("heading", "Carillon cannot be reached")
		p.Axe("the page without a node")
		proxy.Have(NoFault)
		p.Await("heading", "Jobs")
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		proxy := StartProxy(t, s.URL, "")
		p := open(t, proxy.Console())
		p.Open("#/jobs")
		proxy.Have(Hangs)
		p.See("The node did not answer in time")
		proxy.Have(NoFault)
		p.SeeNoMore("The node did not answer in time")
	})
}
