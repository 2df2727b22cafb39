package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/wait"
)

const (
	// connections is how many a browser has to a host over HTTP/1.1.
	connections = 6
	// patience is the longest that an answer may take (api/client.ts).
	patience = 20 * time.Second
	// mostAnswer bounds an answer, in bytes.
	mostAnswer = 64 << 20
)

// Config says which page is open.
type Config struct {
	Node   string // its base URL
	View   View
	Tenant string // that the person has chosen; "" = the default one
	Job    string // id or name of the job, where the view is of one
	Tally  *Tally // where its requests are counted
}

// A Console is a page that somebody has open.
type Console struct {
	cfg    Config
	client *http.Client
	guess  float64    // of the search for the latest runs, whose question alone uses it
	onward url.Values // of the next page of a search; of askOnward alone

	job   atomic.Pointer[knownJob]
	known chan struct{} // closed when the job is known
	knows sync.Once
}

// New returns a page that is not opened yet. The caller closes it.
func New(cfg Config) *Console {
	if cfg.Tally == nil {
		cfg.Tally = new(Tally)
	}
	return &Console{
		cfg: cfg, guess: float64(latestGuess.Milliseconds()), known: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: patience}).DialContext, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		}},
	}
}

// Close closes its connections.
func (c *Console) Close() { c.client.CloseIdleConnections() }

// Open opens the page and returns when it has an answer to every question of its view: first its
// files, then who asks, then all questions at once.
func (c *Console) Open(ctx context.Context) (Seen, error) {
	if err := c.begin(ctx); err != nil {
		return Seen{}, err
	}
	return c.all(ctx, append(ofEveryView[:len(ofEveryView):len(ofEveryView)], views[c.cfg.View]...))
}

// Ask asks the questions of the view, at once, and returns when all have an answer.
func (c *Console) Ask(ctx context.Context) (Seen, error) { return c.all(ctx, views[c.cfg.View]) }

// Stay opens the page and keeps it up to date until ctx ends.
func (c *Console) Stay(ctx context.Context) {
	if c.begin(ctx) != nil {
		return // the tally says why
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.keep(ctx, &who, who.every) })
	for _, questions := range [][]question{ofEveryView, views[c.cfg.View]} {
		for i := range questions {
			wg.Go(func() { c.keep(ctx, &questions[i], 0) })
		}
	}
	wg.Wait()
}

// begin loads the files of the page, and asks who asks.
func (c *Console) begin(ctx context.Context) error {
	load := func(name string) error {
		_, err := c.fetch(ctx, &question{path: "/console/" + name}, nil, nil)
		return err
	}
	if err := load(files[0]); err != nil {
		return err
	}
	var g errgroup.Group
	for _, name := range files[1:] {
		g.Go(func() error { return load(name) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := who.ask(ctx, c, &who)
	return err
}

// all asks questions at once, and adds up what their answers show.
func (c *Console) all(ctx context.Context, questions []question) (Seen, error) {
	g, ctx := errgroup.WithContext(ctx)
	seen := make([]Seen, len(questions))
	for i := range questions {
		q := &questions[i]
		g.Go(func() (err error) {
			if !c.may(ctx, q) {
				return ctx.Err()
			}
			seen[i], err = q.ask(ctx, c, q)
			return err
		})
	}
	err := g.Wait()
	var sum Seen
	for _, s := range seen {
		sum.Items, sum.Due = sum.Items+s.Items, sum.Due+s.Due
	}
	return sum, err
}

// keep asks a question after some time, and then at its interval; once, if it has none. After a
// failure it takes twice as long, where the page takes its time more and more: a measurement in which
// something is refused falls short anyway.
func (c *Console) keep(ctx context.Context, q *question, after time.Duration) {
	if wait.For(ctx, after) != nil || !c.may(ctx, q) {
		return
	}
	for {
		seen, err := q.ask(ctx, c, q)
		next := cmp.Or(seen.again, q.every)
		if err != nil {
			next = max(2*next, steady)
		}
		if next == 0 || wait.For(ctx, next) != nil {
			return
		}
	}
}

// may waits until a question can be asked; false: ctx ended before.
func (c *Console) may(ctx context.Context, q *question) bool {
	if !q.ofJob {
		return ctx.Err() == nil
	}
	select {
	case <-c.known:
		return true
	case <-ctx.Done():
		return false
	}
}

// know notes the job of the view.
func (c *Console) know(job *knownJob) {
	c.job.Store(job)
	c.knows.Do(func() { close(c.known) })
}

// decode asks, and decodes the answer.
func (c *Console) decode(ctx context.Context, q *question, query url.Values, body []byte, into any) error {
	text, err := c.fetch(ctx, q, query, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the answer to %s: %w", q.path, err)
	}
	return nil
}

// fetch makes a request, and counts it unless ctx ended meanwhile: then nobody waits for it any more.
func (c *Console) fetch(ctx context.Context, q *question, query url.Values, body []byte) ([]byte, error) {
	path := q.path
	if strings.Contains(path, "{id}") {
		id := c.cfg.Job
		if q.ofJob {
			id = c.job.Load().ID
		}
		path = strings.ReplaceAll(path, "{id}", url.PathEscape(id))
	}
	u, err := url.Parse(c.cfg.Node + path)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	u.RawQuery = query.Encode()
	began := time.Now()
	text, err := c.send(ctx, cmp.Or(q.method, http.MethodGet), u, body, strings.HasPrefix(path, "/v1/") && path != whoamiPath)
	if ctx.Err() == nil {
		c.cfg.Tally.note(KeyOf(cmp.Or(q.method, http.MethodGet), u), time.Since(began), len(text), err)
	}
	return text, err
}

// send makes a request and reads the answer, which must be a success.
func (c *Console) send(ctx context.Context, method string, u *url.URL, body []byte, chosen bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if chosen && c.cfg.Tenant != "" {
		req.Header.Set("Carillon-Tenant", c.cfg.Tenant)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", u.Path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("answered %d: %.300s", resp.StatusCode, text)
	}
	return text, nil
}
