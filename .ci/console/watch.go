package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	load "carillon.dev/carillon/loadtest/console"
)

// watch collects what must not happen on a page: messages on the console, exceptions, requests to
// other origins, violations of the policy, dialogues of the browser.
type watch struct {
	origin  string
	readers sync.WaitGroup

	mu       sync.Mutex // guards what follows
	seen     []string
	expected []string
	asked    map[string]int // requests by method and path
	keys     map[string]int // requests of the API by what they ask for
}

// ownWorld is where the scripts of the tests run that listen: the page does not see them.
const ownWorld = "carillon-tests"

// listening tells of violations of the policy. Scripts that the protocol adds run whatever the policy
// is.
const listening = `addEventListener('securitypolicyviolation', (e) => {
  tellTests(JSON.stringify({ directive: e.effectiveDirective, blocked: e.blockedURI, sample: e.sample, source: e.sourceFile, line: e.lineNumber }));
}, true);`

// endOfWatch is the last message of a page: what comes before it has been seen when it is.
const endOfWatch = "carillon-tests: the end"

// watchPage begins to watch the page of ctx, which is of a console at base.
func watchPage(ctx context.Context, base string) (*watch, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("read the address of the page: %w", err)
	}
	w := &watch{origin: u.Scheme + "://" + u.Host, asked: map[string]int{}, keys: map[string]int{}}
	read(ctx, w, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		words := make([]string, len(e.Args))
		for i, arg := range e.Args {
			if words[i] = arg.Description; len(arg.Value) > 0 {
				words[i] = unquoted(string(arg.Value))
			}
		}
		w.note("console.%s: %s", e.Type, strings.Join(words, " "))
	})
	read(ctx, w, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += ": " + e.ExceptionDetails.Exception.Description
		}
		w.note("exception: %s", text)
	})
	read(ctx, w, browserlog.EntryAdded, func(e browserlog.EventEntryAdded) {
		w.note("message of the browser (%s, %s): %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	})
	read(ctx, w, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { w.request(e.Request.Method, e.Request.URL) })
	read(ctx, w, network.WebSocketCreated, func(e network.EventWebSocketCreated) { w.request("websocket", e.URL) })
	read(ctx, w, runtime.BindingCalled, func(e runtime.EventBindingCalled) {
		var v struct {
			Directive, Blocked, Sample, Source string
			Line                               int
		}
		if err := json.Unmarshal([]byte(e.Payload), &v); err != nil {
			w.note("violation of the policy that cannot be read: %s", e.Payload)
			return
		}
		w.note("violation of the policy: %s blocks %s %q (%s line %d)", v.Directive, v.Blocked, v.Sample, v.Source, v.Line)
	})
	read(ctx, w, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) {
		w.note("dialogue of the browser (%s): %s", e.Type, e.Message)
		_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}) // it has gone
	})
	for _, begin := range []func() error{
		func() error { return enable(ctx, runtime.Enable, cdp.Empty{}) },
		func() error { return enable(ctx, browserlog.Enable, cdp.Empty{}) },
		func() error { return enable(ctx, network.Enable, network.EnableParams{}) },
		func() error { return enable(ctx, page.Enable, page.EnableParams{}) },
		func() error {
			return enable(ctx, runtime.AddBinding, runtime.AddBindingParams{Name: "tellTests", ExecutionContextName: ownWorld})
		},
		func() error {
			return enable(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: listening, WorldName: ownWorld})
		},
	} {
		if err := begin(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func enable[P, R any](ctx context.Context, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

// read has each event of a kind noted, until the page is closed.
func read[E any](ctx context.Context, w *watch, kind cdp.Event[E], note func(E)) {
	// It listens from here on, and until the page is gone: then what has come is read to its end, which
	// it would not be if the end of ctx ended it.
	events := cdp.Events(context.Background(), chromedp.FromContext(ctx).Target, kind)
	w.readers.Go(func() {
		for event, err := range events {
			if err != nil {
				w.note("an event that cannot be read: %v", err)
				return
			}
			note(event)
		}
	})
}

func (w *watch) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

// request notes a request to another origin.
func (w *watch) request(method, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, err := url.Parse(address)
	if err == nil && u.Scheme+"://"+u.Host == w.origin {
		w.asked[method+" "+u.Path]++
		if strings.HasPrefix(u.Path, "/v1/") {
			w.keys[load.KeyOf(method, u)]++
		}
		return
	}
	if err == nil && slices.Contains([]string{"about", "blob", "data"}, u.Scheme) {
		return // nobody is asked; the policy says whether it may be
	}
	w.seen = append(w.seen, fmt.Sprintf("request to another origin: %s %.200s", method, address))
}

func (w *watch) expect(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected = append(w.expected, text)
}

// faults returns what was seen and not expected.
func (w *watch) faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var faults []string
	for _, text := range w.seen {
		expected := slices.ContainsFunc(w.expected, func(e string) bool { return strings.Contains(text, e) })
		if !expected && !strings.Contains(text, endOfWatch) {
			faults = append(faults, text)
		}
	}
	return faults
}

// requests returns how often a path was asked for so far.
func (w *watch) requests(method, path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[method+" "+path]
}

// questions returns how often the page asked the API for what, by load.KeyOf.
func (w *watch) questions() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.keys)
}

// end closes the page when all that has happened on it is known.
func (w *watch) end(closePage func()) {
	await(5*time.Second, func() (bool, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.seen, func(text string) bool { return strings.Contains(text, endOfWatch) }), ""
	})
	closePage()
	w.readers.Wait()
}

// unquoted returns a JSON string as a text, and other JSON as it is.
func unquoted(text string) string {
	var s string
	if json.Unmarshal([]byte(text), &s) == nil {
		return s
	}
	return text
}

// total returns how often paths were asked for so far that begin so.
func (w *watch) total(method, prefix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for asked, times := range w.asked {
		if strings.HasPrefix(asked, method+" "+prefix) {
			n += times
		}
	}
	return n
}
