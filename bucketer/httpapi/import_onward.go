package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/schema"
)

// # Lines that belong to another region
//
// A chunk is submitted here, as every write is. Those of its lines that are refused because another
// region serves their home go on to that region as small imports, one after the other. The body of
// each has an end, so proxies that read a whole body before they pass it on do no harm. Their
// answers stand in place of the refusals. Lines of one chunk may go to several regions.
//
// One hop: lines that another region sent on are answered here, whatever becomes of them. A line is
// sent on once. If its region cannot be reached the refusal stands, which names the home; if it was
// sent and not answered, its answer is 503 unknown. What is only to be checked is checked here.
//
// Memory: a chunk holds the text of its lines until it is decided, and at most onwardAtOnce imports
// of maxOnward bytes are on their way from this node to a region. A chunk that waits for that keeps
// its place among the chunks of its import, so a region that is slow slows the caller down.

// onwardAtOnce bounds the imports that are on their way to one region. A node takes 16 by default,
// and they share these places with the imports that callers send it.
const onwardAtOnce = 8

// How much goes on as one import: it must end well within the time of what is sent on, and fit into
// what proxies take by default (1 MiB).
const (
	maxOnward      = 512 << 10 // bytes, unless one line is longer
	maxOnwardLines = 256
)

// onward is the way of lines to other regions; nil: they stay here.
type onward struct {
	sender Forward
	header http.Header // of the import
	target string
	text   []byte // lines of the chunk that is gathered, each with its end …
	ends   []int  // … and where each ends
}

// importsUnderWay bounds the imports that are taken at once, and what of them is on its way to each
// region. What is sent into a channel is a place that is taken.
type importsUnderWay struct {
	here chan struct{}

	mu      sync.Mutex
	regions map[string]chan struct{} // guarded by mu
}

// to returns the places on the way to a region.
func (u *importsUnderWay) to(region string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.regions == nil {
		u.regions = make(map[string]chan struct{})
	}
	if u.regions[region] == nil {
		u.regions[region] = make(chan struct{}, onwardAtOnce)
	}
	return u.regions[region]
}

// onward returns the way of the lines of an import to other regions. Nil: there is none, or the
// import came that way itself.
func (m *importer) onward() *onward {
	r := m.gin.Request
	if m.s.deps.Forward == nil || m.s.deps.Homes == nil || m.validateOnly || r.Header.Get(forward.Header) != "" {
		return nil
	}
	target := importPath
	if m.durability != "" {
		target += "?" + url.Values{"durability": {string(m.durability)}}.Encode()
	}
	header := middleware{m.s}.onward(r)
	for _, of := range []string{"Accept", keyHeader, "If-Match", "If-None-Match"} { // of another body, or of none
		header.Del(of)
	}
	header.Set("Content-Type", ndjson)
	return &onward{sender: m.s.deps.Forward, header: header, target: target}
}

// add keeps the text of a line.
func (o *onward) add(text []byte) {
	if o == nil {
		return
	}
	o.text = append(append(o.text, text...), '\n')
	o.ends = append(o.ends, len(o.text))
}

// take returns the lines that were kept, and begins anew.
func (o *onward) take() lineTexts {
	if o == nil {
		return lineTexts{}
	}
	t := lineTexts{o.text, o.ends}
	o.text, o.ends = nil, nil
	return t
}

// lineTexts are the texts of the lines of a chunk, each with its end.
type lineTexts struct {
	text []byte
	ends []int
}

// line returns the text of a line.
func (t lineTexts) line(i int) []byte {
	if i == 0 {
		return t.text[:t.ends[0]]
	}
	return t.text[t.ends[i-1]:t.ends[i]]
}

// body returns the texts of the first of some lines, one after the other, and how many these are:
// no more than go on as one import.
func (t lineTexts) body(lines []int) (body []byte, n int) {
	size := 0
	for n < min(len(lines), maxOnwardLines) {
		if size += len(t.line(lines[n])); size > maxOnward && n > 0 {
			break
		}
		n++
	}
	for _, i := range lines[:n] {
		body = append(body, t.line(i)...)
	}
	return body, n
}

// sendOn sends those lines of a chunk on that another region serves, and notes what it answers.
func (m *importer) sendOn(ctx context.Context, c chunk, decisions []decision) {
	if len(c.texts.ends) == 0 {
		return
	}
	lines := make(map[string][]int) // by region
	for i := range decisions {
		if err := decisions[i].err; err != nil {
			if home := elsewhere(m.way.sender, problemOf(err).Kind(), err); home != nil {
				lines[home.Region()] = append(lines[home.Region()], i)
			}
		}
	}
	var all sync.WaitGroup
	for region, of := range lines {
		all.Go(func() {
			defer m.guard()
			for len(of) > 0 {
				n := m.sendTo(ctx, region, c.texts, of, decisions)
				of = of[n:]
			}
		})
	}
	all.Wait()
}

// sendTo sends the first of some lines of a chunk to the region that serves them, and returns how
// many.
func (m *importer) sendTo(ctx context.Context, region string, texts lineTexts, lines []int, decisions []decision) int {
	place := m.s.imports.to(region)
	select {
	case place <- struct{}{}:
		defer func() { <-place }()
	case <-m.s.stopping:
		return len(lines) // the refusals stand
	case <-ctx.Done():
		return len(lines)
	}
	body, n := texts.body(lines)
	lines = lines[:n]
	heard := make([]bool, n)
	request := forward.Request{Method: http.MethodPost, Target: m.way.target, Header: m.way.header.Clone(), Body: body}
	err := m.way.sender.Send(ctx, region, request, func(answer *http.Response) {
		if cut := readOnward(answer, region, lines, heard, decisions); cut != nil {
			m.s.log.Warn("lines sent on: the answer was cut", "region", region, "tenant", m.tenant, "lines", n, "err", cut)
		}
	})
	for k, i := range lines {
		switch {
		case heard[k]:
		case errors.Is(err, forward.ErrBusy):
			decisions[i].err = bucketer.ErrOverloaded
		case errors.Is(err, forward.ErrUnreachable):
			decisions[i].err = unreachableThere(problemOf(decisions[i].err))
		default:
			var home *schema.NotServedError
			if errors.As(decisions[i].err, &home) { // it is: that is why it was sent on
				decisions[i].err = unknownThere(home)
			}
		}
	}
	if err != nil {
		m.s.log.Warn("lines were not sent on, or not answered", "region", region, "tenant", m.tenant, "lines", n, "err", err)
	}
	return n
}

// readOnward notes what a region answers to lines that were sent on. Lines of which it says nothing
// are not heard; the error says why there are any.
func readOnward(answer *http.Response, region string, lines []int, heard []bool, decisions []decision) error {
	if answer.StatusCode != http.StatusOK {
		p := &Problem{}
		if err := json.NewDecoder(answer.Body).Decode(p); err != nil || !strings.HasPrefix(answer.Header.Get("Content-Type"), problemJSON) || p.Status != answer.StatusCode {
			return fmt.Errorf("what stands before the region answered %d", answer.StatusCode)
		}
		p.Detail = strings.TrimSpace("Region " + region + ", which serves its home, refused this line and others together. " + p.Detail)
		for k, i := range lines {
			heard[k], decisions[i].err = true, p
		}
		return nil
	}
	said := bufio.NewScanner(answer.Body)
	said.Buffer(nil, maxAnswerLine)
	for said.Scan() {
		var l struct {
			ImportResult
			Summary *ImportSummary `json:"summary"`
		}
		if err := json.Unmarshal(said.Bytes(), &l); err != nil {
			return fmt.Errorf("decode an answer: %w", err)
		}
		switch {
		case l.Summary != nil:
			if slices.Contains(heard, false) {
				return errors.New("it names fewer lines than were sent")
			}
			return nil
		case l.Line == 0 && l.Error != nil:
			return l.Error
		case l.Line < 1 || l.Line > int64(len(lines)):
			return fmt.Errorf("it names line %d of %d", l.Line, len(lines))
		}
		d := decision{id: l.ID, existing: l.Status == http.StatusOK}
		if l.Error != nil {
			d = decision{err: l.Error}
		}
		heard[l.Line-1], decisions[lines[l.Line-1]] = true, d
	}
	if err := said.Err(); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return errors.New("it has no summary")
}
