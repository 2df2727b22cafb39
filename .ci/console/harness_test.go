package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tests of the tests: against small pages with a known fault each, so that one sees that a fault is
// found, and that a page without one passes.

const strictPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

// site serves small pages. Each has a heading, so that it settles.
func site(t *testing.T, body, script string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/console/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", strictPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8">`+
			`<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">`+
			`<title>Small</title><link rel="icon" href="icon.svg"><link rel="stylesheet" href="page.css"></head>`+
			`<body><main><h1>Small page</h1>%s</main><script src="page.js"></script></body></html>`, body)
	})
	mux.HandleFunc("/console/page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(script))
	})
	mux.HandleFunc("/console/page.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		_, _ = w.Write([]byte(`.pale { color: #999; background: #aaa; } .wide { width: 2000px; } .box { overflow-x: auto; }
      .blind:focus { outline: none; } .cover { position: fixed; inset: 0; background: white; } .late { display: none; }`))
	})
	mux.HandleFunc("/console/icon.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/console/"
}

// quiet stands in for a test whose failures are looked at instead of counted.
type quiet struct {
	testing.TB

	failures []string
	ends     []func()
}

func (q *quiet) Helper()                   {}
func (q *quiet) Failed() bool              { return false }
func (q *quiet) Logf(string, ...any)       {}
func (q *quiet) Cleanup(end func())        { q.ends = append(q.ends, end) }
func (q *quiet) Error(args ...any)         { q.failures = append(q.failures, fmt.Sprint(args...)) }
func (q *quiet) Errorf(f string, a ...any) { q.failures = append(q.failures, fmt.Sprintf(f, a...)) }
func (q *quiet) Fatal(args ...any)         { q.Error(args...); panic(q) }
func (q *quiet) Fatalf(f string, a ...any) { q.Errorf(f, a...); panic(q) }

// failuresOf runs a test on a page and returns how it failed, the end of the page included.
func failuresOf(t *testing.T, base string, act func(p *Page)) []string {
	t.Helper()
	need(t)
	q := &quiet{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(q) {
				panic(r)
			}
		}()
		p := shared.Page(q, base)
		act(p)
	}()
	for i := len(q.ends) - 1; i >= 0; i-- {
		q.ends[i]()
	}
	return q.failures
}

func TestFaultsOfAPageAreFound(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Elsewhere</title><h1>Elsewhere</h1>"))
	}))
	t.Cleanup(elsewhere.Close)
	for name, row := range map[string]struct {
		body, script string
		want         string // in a failure; "" = there are none
	}{
		"none":                               {`<p>All is well.</p><button>Go on</button>`, `document.title = 'Other'`, ""},
		"a message on the console":           {"", `console.error('something broke')`, "console.error: something broke"},
		"a warning on the console":           {"", `console.warn('beware')`, "console.warning: beware"},
		"a note on the console":              {"", `console.log('here I am')`, "console.log: here I am"},
		"an exception":                       {"", `setTimeout(() => { throw new Error('oh no'); })`, "exception: Uncaught: Error: oh no"},
		"a promise that nobody awaits":       {"", `Promise.reject(new Error('left alone'))`, "left alone"},
		"a file that is not there":           {`<img src="missing.png" alt="none">`, "", "Failed to load resource"},
		"a request to another origin":        {"", `fetch('` + elsewhere.URL + `/spy').catch(() => {})`, "violation of the policy: connect-src blocks " + elsewhere.URL},
		"an image of another origin":         {`<img alt="spy" src="` + elsewhere.URL + `/spy.png">`, "", "violation of the policy: img-src"},
		"a link that is followed":            {`<a id="out" href="` + elsewhere.URL + `/">Out</a>`, `document.getElementById('out').click()`, "request to another origin: GET " + elsewhere.URL},
		"a script in the page":               {`<script>document.title = 'owned'</script>`, "", "violation of the policy: script-src-elem blocks inline"},
		"a style in the page":                {`<p style="color: red">Red</p>`, "", "violation of the policy: style-src-attr blocks inline"},
		"text that is made markup":           {`<p id="p"></p>`, `try { document.getElementById('p').innerHTML = '<b>bold</b>'; } catch {}`, "violation of the policy: require-trusted-types-for"},
		"an alert":                           {"", `alert('gotcha')`, "dialogue of the browser (alert): gotcha"},
		"a violation that is reported twice": {"", `console.error('a'); console.error('b')`, "console.error: b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, site(t, row.body, row.script), func(p *Page) { p.Open("") })
			all := strings.Join(failures, "\n")
			if row.want == "" && len(failures) > 0 {
				t.Errorf("a page without a fault fails with:\n%s", all)
			}
			if !strings.Contains(all, row.want) {
				t.Errorf("the page fails with:\n%s\nwant in it: %s", all, row.want)
			}
		})
	}
}

func TestExpectedFaultsAreNone(t *testing.T) {
	t.Parallel()
	failures := failuresOf(t, site(t, "", `console.error('that one'); console.error('this one')`), func(p *Page) {
		p.Expect("that one")
		p.Open("")
	})
	if len(failures) != 1 || !strings.Contains(failures[0], "this one") {
		t.Errorf("the page fails with %q, want one failure that names this one", failures)
	}
}

func TestAxeFindsViolations(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, want string }{
		"none":                   {`<p>Dark on light.</p><label>Name <input></label>`, ""},
		"a field without name":   {`<input>`, "light: axe finds label"},
		"pale text":              {`<p class="pale">Hard to read</p>`, "dark: axe finds color-contrast"},
		"a picture without text": {`<img src="icon.svg">`, "light: axe finds image-alt"},
		"a button without name":  {`<button></button>`, "light: axe finds button-name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, site(t, row.body, ""), func(p *Page) { p.Open(""); p.Axe("small") })
			all := strings.Join(failures, "\n")
			if (row.want == "") != (len(failures) == 0) || !strings.Contains(all, row.want) {
				t.Errorf("the page fails with:\n%s\nwant in it: %q", all, row.want)
			}
		})
	}
}

func TestWalkFindsWhatKeysCannotReach(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, script, want string }{
		"nothing":                  {`<a href="#a">One</a> <button>Two</button> <label>Three <input></label> <select aria-label="Four"><option>a</option></select>`, "", ""},
		"a button without a frame": {`<button class="blind">Unseen</button>`, "", `button "Unseen" looks the same with the focus`},
		"a trap": {
			`<button id="t">Trap</button><button>After</button>`,
			`document.getElementById('t').addEventListener('keydown', (e) => { if (e.key === 'Tab') { e.preventDefault(); } })`,
			"does not let the focus go",
		},
		"something in front": {`<button>Behind</button><div class="cover">In front</div>`, "", `button "Behind" has the focus, and it is behind`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, site(t, row.body, row.script), func(p *Page) { p.Open(""); p.Walk("small") })
			all := strings.Join(failures, "\n")
			if (row.want == "") != (len(failures) == 0) || !strings.Contains(all, row.want) {
				t.Errorf("the page fails with:\n%s\nwant in it: %q", all, row.want)
			}
		})
	}
}

func TestFitsFindsWhatIsTooWide(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, want string }{
		"nothing":            {`<p>Narrow</p>`, ""},
		"a wide text":        {`<p class="wide">Wide</p>`, `p "Wide" ends at`},
		"a box that scrolls": {`<div class="box"><p class="wide">Wide</p></div>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, site(t, row.body, ""), func(p *Page) { p.Resize(360, 800); p.Open(""); p.Fits("small") })
			all := strings.Join(failures, "\n")
			if (row.want == "") != (len(failures) == 0) || !strings.Contains(all, row.want) {
				t.Errorf("the page fails with:\n%s\nwant in it: %q", all, row.want)
			}
		})
	}
}

// What a person does comes to the page as it does from a person.
func TestActsReachThePage(t *testing.T) {
	t.Parallel()
	body := `<form><label>Name <input id="name"></label> <label>Note <textarea></textarea></label>
    <label>When <input type="datetime-local" step="1"></label>
    <label>Colour <select><option>red</option><option value="b">blue</option></select></label>
    <label><input type="checkbox"> Loud</label> <label>File <input type="file"></label>
    <button>Send</button></form>
    <section aria-label="Answer"><p></p></section><section aria-label="Other"><button>Send</button></section>
    <button class="late">Later</button><button aria-hidden="true" tabindex="-1">Hidden</button>
    <table><caption>Letters</caption><tr><th scope="col">Letter</th><th scope="col">Acts</th></tr><tr><td>alpha</td><td><button>Open</button></td></tr><tr><td>beta</td><td><button>Open</button></td></tr></table>`
	script := `const f = document.forms[0], out = document.querySelector('section p');
    f.addEventListener('submit', (e) => {
      e.preventDefault();
      out.textContent = [...f.elements].map((x) => x.type === 'file' ? x.files[0]?.name : x.type === 'checkbox' ? x.checked : x.value).join(' | ');
      setTimeout(() => document.querySelector('.late').classList.remove('late'), 300);
    });
    document.querySelector('.late').addEventListener('click', () => { out.textContent = 'later'; });
    document.querySelectorAll('td button').forEach((b) => b.addEventListener('click', () => { out.textContent = b.closest('tr').cells[0].textContent; }));
    addEventListener('keydown', (e) => { if (e.key === '?' && e.target === document.body) { out.textContent = 'help'; } });`
	lines := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(lines, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, site(t, body, script))
	p.Open("")
	p.Fill("Name", "Ada Löwe")
	p.Fill("Name", "Ada Lovelace")
	p.Fill("Note", "<b>1</b>")
	p.Fill("When", "2027-03-28T02:30:00")
	p.Choose("Colour", "blue")
	p.Check("Loud", true)
	p.Check("Loud", true)
	p.Upload("File", lines)
	p.In("form", "").Click("button", "Send")
	p.In("region", "Answer").See("Ada Lovelace | <b>1</b> | 2027-03-28T02:30 | b | true | lines.txt")
	p.Click("button", "Later")
	p.In("region", "Answer").See("later")
	p.InRow("beta").Click("button", "Open")
	p.In("region", "Answer").See("beta")
	if p.Has("button", "Hidden") {
		t.Error("a button that screen readers do not know is found")
	}
	if n := p.Count("button", "Send"); n != 2 {
		t.Errorf("%d buttons are called Send, want 2", n)
	}
	evaluate[bool](p, "document.activeElement.blur(), true")
	p.Press("?")
	p.In("region", "Answer").See("help")
	if value := p.Value("Name"); value != "Ada Lovelace" {
		t.Errorf("Value(Name) = %q", value)
	}
}

// What is found must be one thing, and what can be clicked must be seen.
func TestActsFailWherePersonsWould(t *testing.T) {
	need(t)
	t.Parallel()
	for name, row := range map[string]struct {
		body string
		act  func(p *Page)
		want string
	}{
		"two of a name":            {`<button>Go</button><button>Go</button>`, func(p *Page) { p.Click("button", "Go") }, "2 of it"},
		"something in front":       {`<button>Go</button><div class="cover">In front</div>`, func(p *Page) { p.Click("button", "Go") }, "it is covered by div"},
		"a disabled button":        {`<button disabled>Go</button>`, func(p *Page) { p.Click("button", "Go") }, "it is disabled"},
		"another name":             {`<button>Stop</button>`, func(p *Page) { p.Click("button", "Go") }, `of that role there are "Stop"`},
		"a text that is not there": {`<p>Here</p>`, func(p *Page) { p.See("There") }, "Small page Here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, site(t, row.body, ""), func(p *Page) {
				p.Open("")
				p.patience = time.Second
				row.act(p)
			})
			if all := strings.Join(failures, "\n"); !strings.Contains(all, row.want) {
				t.Errorf("the page fails with:\n%s\nwant in it: %q", all, row.want)
			}
		})
	}
}

func TestClockOfThePageIsWrong(t *testing.T) {
	t.Parallel()
	p := open(t, site(t, `<p id="now"></p>`, `document.getElementById('now').textContent = new Date().toISOString() + ' ' + (Date.now() - performance.timeOrigin > 3500000)`),
		ClockAhead(time.Hour), InZone("Europe/Berlin"))
	p.Open("")
	p.See(time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:"))
	p.See("true")
	if zone := evaluate[string](p, "Intl.DateTimeFormat().resolvedOptions().timeZone"); zone != "Europe/Berlin" {
		t.Errorf("the zone is %s, want Europe/Berlin", zone)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(node.Close)
	p := StartProxy(t, node.URL, "/ops/carillon")
	for _, row := range []struct {
		fault  Fault
		path   string
		status int
		text   string
	}{
		{NoFault, "/ops/carillon/v1/runs", 200, "GET /v1/runs"},
		{NoFault, "/v1/runs", 404, ""},
		{StoreDown, "/ops/carillon/v1/runs", 503, "urn:carillon:problem:unavailable"},
		{StoreDown, "/ops/carillon/v1/whoami", 200, "GET /v1/whoami"},
		{StoreDown, "/ops/carillon/console/", 200, "GET /console/"},
		{NodeDown, "/ops/carillon/v1/whoami", 503, "<h1>"},
	} {
		p.Have(row.fault)
		resp, err := http.Get(strings.TrimSuffix(p.URL, "/ops/carillon") + row.path)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 1000)
		n, _ := resp.Body.Read(text)
		_ = resp.Body.Close()
		if resp.StatusCode != row.status || !strings.Contains(string(text[:n]), row.text) {
			t.Errorf("%v %s: %d %q, want %d and %q", row.fault, row.path, resp.StatusCode, text[:n], row.status, row.text)
		}
	}
	node.Close()
	p.Have(NoFault)
	if resp, err := http.Get(p.URL + "/v1/runs"); err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("with no node the proxy answers %v, %v, want 502", resp, err)
	}
}
