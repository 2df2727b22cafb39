package console

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// check looks at a view in every way that holds for all: axe in light and dark, the keyboard alone, a
// phone and a wide screen. That nothing is asked of another host, and that no message and no violation
// comes, each page checks by itself.
func check(p *Page, what string) {
	p.t.Helper()
	p.Axe(what)
	p.Fits(what + ", 1440 wide")
	p.Walk(what)
	p.Resize(360, 800)
	p.Settled()
	p.Fits(what + ", 360 wide")
}

// openView opens a view, or leaves it out if it is still to be built.
func openView(t *testing.T, base string, place string, options ...PageOption) *Page {
	t.Helper()
	p := open(t, base, options...)
	p.Built(place)
	return p
}

// Every view with nothing in it.
func TestViewsEmpty(t *testing.T) {
	t.Parallel()
	s := serve(t)
	t.Run("views", func(t *testing.T) {
		for _, view := range Views {
			if view.Thing {
				continue
			}
			t.Run(view.Name, func(t *testing.T) {
				t.Parallel()
				check(openView(t, s.Console(), view.Place(nil)), view.Name+", empty")
			})
		}
	})
}

// Every view with something of each kind in it.
func TestViewsFull(t *testing.T) {
	t.Parallel()
	w := world(t)
	t.Run("views", func(t *testing.T) {
		for _, view := range Views {
			t.Run(view.Name, func(t *testing.T) {
				t.Parallel()
				p := openView(t, w.Server.Console(), view.Place(w))
				if said := p.Text(); strings.Contains(said, "Something went wrong in this page") {
					t.Errorf("the view says that something went wrong in it:\n%s", cut(said))
				}
				check(p, view.Name+", full")
				p.AxeInTheme(view.Name + ", full, 360 wide") // cards in place of rows, and a menu
			})
		}
	})
}

// Every view of a node whose store cannot be reached: opened then, and open when it happens. It says
// so, and is well again by itself.
func TestViewsWithoutStore(t *testing.T) {
	t.Parallel()
	w := world(t)
	t.Run("views", func(t *testing.T) {
		for _, view := range Views {
			t.Run(view.Name, func(t *testing.T) {
				t.Parallel()
				proxy := StartProxy(t, w.Server.URL, "")
				p := openView(t, proxy.Console(), view.Place(w))
				p.Expect("503 (Service Unavailable)")
				proxy.Have(StoreDown)
				p.Reload()
				p.until("the node was asked in vain, or the view asks nothing", func() (bool, string) {
					return proxy.Refused() > 0 || view.Name == "nowhere" || view.Name == "new job" || view.Name == "import", "no request"
				})
				p.Settled()
				if proxy.Refused() > 0 {
					p.See("The store cannot be reached")
				}
				p.Axe(view.Name + ", without a store")
				p.Fits(view.Name + ", without a store")
				proxy.Have(NoFault)
				p.SeeNoMore("The store cannot be reached")
				p.Settled()
			})
		}
	})
}

// The page for who has no session.
func TestLogInView(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	p := open(t, s.Console())
	p.Expect("401 (Unauthorized)")
	p.Open("")
	p.See("Log in")
	check(p, "log in")
}

// The keys of every view lead where the list of keys says.
func TestKeysLeadToViews(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := open(t, s.Console())
	p.Open("#/")
	for keys, place := range map[string]string{
		"g r": "#/runs", "g j": "#/jobs", "g w": "#/workflows", "g t": "#/tasks", "g d": "#/dead-letters", "g c": "#/cluster", "g o": "#/",
	} {
		p.Press(keys)
		p.AwaitAt(place)
		p.Settled()
		if role, _ := p.Focus(); role != "heading" {
			t.Errorf("after %s the focus is on a %q, want the heading of the view", keys, role)
		}
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
func TestRowsByKeys(t *testing.T) {
	t.Parallel()
	w := world(t)
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

// The page is asked for as little as it must: it stops while nobody sees it or somebody selects.
func TestPageHoldsStill(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := open(t, s.Console())
	p.Open("#/runs")
	p.Click("button", "Hold the page still")
	p.See("held still")
	asked := p.watch.total("GET", "/v1/")
	p.Click("button", "Keep the page up to date")
	p.until("the page asks again", func() (bool, string) { return p.watch.total("GET", "/v1/") > asked, "it does not" })
	p.SeeNoMore("held still")
}

// TestShots takes a picture of each view, and of some in dark and on a phone, for who reads about the
// console.
func TestShots(t *testing.T) {
	dir := shotsFolder()
	if dir == "" {
		t.Skip("pictures are taken by make console-shots")
	}
	w := world(t)
	for _, view := range Views {
		t.Run(view.Name, func(t *testing.T) {
			p := openView(t, w.Server.Console(), view.Place(w), InZone("Europe/Berlin"), Sized(1280, 800))
			name := strings.NewReplacer(",", "", " ", "-").Replace(strings.ToLower(view.Name))
			p.Shot(filepath.Join(dir, name+".png"))
			if !slices.Contains([]string{"overview", "run, failed", "workflow run, fan-out"}, view.Name) {
				return
			}
			p.Theme(true)
			p.Shot(filepath.Join(dir, name+"-dark.png"))
			p.Theme(false)
			p.Resize(360, 740)
			p.Settled()
			p.Shot(filepath.Join(dir, name+"-phone.png"))
		})
	}
}
