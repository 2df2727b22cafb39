package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// PatienceEnv is how long a page may take until it shows what is waited for, instead of patience: for
// a machine that has much else to do.
const PatienceEnv = "CONSOLE_PATIENCE"

// patience is how long a page may take until it shows what is waited for. It is generous: the
// machine may be busy with other tests.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceEnv)); err == nil && d > 0 {
		return d
	}
	return 45 * time.Second
}()

// glance is the time between two looks at a page.
const glance = 50 * time.Millisecond

// A Page is a page of the browser, with cookies and storage of its own. Its methods fail the test if
// they cannot do what they are to. One goroutine may use it at a time.
type Page struct {
	Place // the whole page

	t     testing.TB
	ctx   context.Context
	base  string // of the console: ends with /console/
	watch *watch
	dark  bool

	patience time.Duration // how long is waited for what must come
}

// A PageOption says how a page is to be.
type PageOption func(*pageSettings)

type pageSettings struct {
	zone          string
	width, height int64
	ahead         time.Duration
}

// InZone has the browser be in a time zone, such as "Europe/Berlin"; the default is UTC.
func InZone(name string) PageOption { return func(s *pageSettings) { s.zone = name } }

// Sized has the page be so wide and high, in CSS pixels; the default is 1440 × 900.
func Sized(width, height int64) PageOption {
	return func(s *pageSettings) { s.width, s.height = width, height }
}

// ClockAhead has the clock of the browser be wrong: it is ahead by so much.
func ClockAhead(d time.Duration) PageOption { return func(s *pageSettings) { s.ahead = d } }

// Page opens an empty page for the console at base, which ends with a slash. At the end of the test
// it is closed, and the test fails if something happened on it that must not (watch.go).
func (b *Browser) Page(t testing.TB, base string, options ...PageOption) *Page {
	t.Helper()
	s := pageSettings{zone: "UTC", width: 1440, height: 900}
	for _, o := range options {
		o(&s)
	}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p := &Page{t: t, ctx: ctx, base: base, patience: patience}
	p.Place = Place{page: p}
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		t.Fatalf("open a page: %v", err)
	}
	var err error
	if p.watch, err = watchPage(ctx, base); err != nil {
		cancel()
		t.Fatalf("watch a page: %v", err)
	}
	t.Cleanup(func() {
		p.keepPicture()
		_, _ = try[bool](p, "console.debug("+quoted(endOfWatch)+"), true") // a page that is gone says nothing more
		p.watch.end(cancel)
		for _, fault := range p.watch.faults() {
			t.Errorf("%s: %s", t.Name(), fault)
		}
	})
	p.Resize(s.width, s.height)
	call(p, "set the zone", emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: s.zone})
	p.Theme(false)
	if s.ahead != 0 {
		source := fmt.Sprintf(wrongClock, s.ahead.Milliseconds())
		call(p, "set the clock wrong", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: source})
	}
	return p
}

// wrongClock shifts what scripts of the page believe the time to be, in ms.
const wrongClock = `(() => {
  const Right = Date, by = %d;
  class Wrong extends Right {
    constructor(...args) { if (args.length === 0) { super(Right.now() + by); } else { super(...args); } }
    static now() { return Right.now() + by; }
  }
  globalThis.Date = Wrong;
})()`

// Open goes to a place of the page, such as "#/runs?state=failed", or to another path below the
// console's, and waits until the view is there and asks for nothing more.
func (p *Page) Open(place string) {
	p.t.Helper()
	p.Go(place)
	p.Settled()
}

// Go goes to a place and waits for nothing but the page itself.
func (p *Page) Go(place string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(p.base+place)); err != nil {
		p.t.Fatalf("open %s: %v", p.base+place, err)
	}
}

// Reload loads the page anew, as F5 does.
func (p *Page) Reload() {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Reload()); err != nil {
		p.t.Fatalf("load the page anew: %v", err)
	}
}

// Back goes back to where the page was.
func (p *Page) Back() {
	p.t.Helper()
	evaluate[bool](p, "history.back(), true")
}

// At returns the place at which the page is: "#/runs?state=failed".
func (p *Page) At() string {
	p.t.Helper()
	return evaluate[string](p, "location.hash")
}

// AwaitAt waits until the page is at a place that begins so.
func (p *Page) AwaitAt(place string) {
	p.t.Helper()
	p.until("the page is at "+place, func() (bool, string) {
		at := p.At()
		return strings.HasPrefix(at, place), at
	})
}

// Settled waits until the view has its heading, and no part of it still asks for its data.
func (p *Page) Settled() {
	p.t.Helper()
	p.until("the view is there", func() (bool, string) {
		state, err := try[string](p, `(() => {
      const shown = (e) => e.checkVisibility();
      if (document.readyState !== 'complete') { return 'the document loads'; }
      if (![...document.querySelectorAll('h1')].some(shown)) { return 'no heading'; }
      if ([...document.querySelectorAll('[aria-busy="true"]')].some(shown)) { return 'a part is busy'; }
      return '';
    })()`)
		if err != nil {
			return false, err.Error()
		}
		return state == "", state
	})
}

// Resize has the page be so wide and high, in CSS pixels. Below 600 it is a phone.
func (p *Page) Resize(width, height int64) {
	p.t.Helper()
	call(p, "set the size", emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

// Theme has the system of the person be dark or light. Nothing moves by itself, as such systems can
// ask for, so what is measured is not between two colours.
func (p *Page) Theme(dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.dark = dark
	call(p, "set the theme", emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// Hide has the page be one that nobody sees, such as one in another tab, or not.
func (p *Page) Hide(hidden bool) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf(`(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: %[1]v });
    Object.defineProperty(document, 'visibilityState', { configurable: true, value: %[1]v ? 'hidden' : 'visible' });
    return document.dispatchEvent(new Event('visibilitychange'));
  })()`, hidden))
}

// Expect names what this test provokes: a message whose text contains it is no fault.
func (p *Page) Expect(text string) { p.watch.expect(text) }

// Picture keeps what can be seen of the page, or the whole of it, as a PNG.
func (p *Page) Picture(file string, whole bool) {
	p.t.Helper()
	shot := chromedp.CaptureScreenshot()
	if whole {
		shot = chromedp.FullScreenshot(100)
	}
	text, err := chromedp.Run(p.ctx, shot)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)) // #nosec G301 G306 -- pictures
	}
	if err != nil {
		p.t.Errorf("take a picture of %s: %v", p.base, err)
	}
}

// keepPicture keeps what a test saw at its end that failed, for who looks into it.
func (p *Page) keepPicture() {
	if !p.t.Failed() || p.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	dir := filepath.Join(root(), ".local", "console", "failed")
	name := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "_").Replace(p.t.Name()))
	text, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(name+".png", text, 0o644)) // #nosec G301 G306 -- pictures
	}
	if err != nil {
		p.t.Logf("no picture of the end: %v", err)
		return
	}
	p.t.Logf("the page at the end, at %s: %s.png", p.tryAt(ctx), name)
}

func (p *Page) tryAt(ctx context.Context) string {
	at, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "?"
	}
	return at
}

// within returns the page with another patience, for what takes long.
func (p *Page) within(d time.Duration) *Page {
	other := *p
	other.patience = d
	other.Place.page = &other
	return &other
}

// until waits until look reports true. The second value is what is there instead, for the failure.
func (p *Page) until(what string, look func() (bool, string)) {
	p.t.Helper()
	if there, ok := await(p.patience, look); !ok {
		p.t.Fatalf("waited %v until %s; there is: %s", p.patience, what, there)
	}
}

// await looks until it is so, or the limit is over, and returns what it saw last.
func await(limit time.Duration, look func() (bool, string)) (string, bool) {
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		ok, there := look()
		if ok {
			return there, true
		}
		select {
		case <-over.C:
			return there, false
		case <-tick.C:
		}
	}
}

// try runs JavaScript in the page and returns its value. It works whatever the page's policy is.
func try[T any](p *Page, script string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// evaluate is try that fails the test.
func evaluate[T any](p *Page, script string) T {
	p.t.Helper()
	v, err := try[T](p, script)
	if err != nil {
		p.t.Fatalf("run in the page: %v\n%.300s", err, script)
	}
	return v
}

// quoted returns a text as JavaScript.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always can
	}
	return string(b)
}
