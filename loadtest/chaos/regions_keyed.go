package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// Each home has a job created every keyedEvery by a request with an idempotency key, which is
	// sent again at the other region againAfter its answer.
	keyedEvery, againAfter = time.Second, 10 * time.Second
	// keyedOffset keeps these requests apart from the faults, which come at whole seconds.
	keyedOffset = 500 * time.Millisecond
	// againPatient bounds the tries at the other region, which may be away.
	againPatient = 5 * time.Second
	keyedSuffix  = "-keyed"
)

// A KeyedResult counts requests with keys that were sent again at the other region.
type KeyedResult struct {
	Created int `json:"created"` // answered where they were sent first
	// Same were answered at the other region with the same id, Different with another one. Silent
	// got no answer there: it was away, or nobody served the home. Unsent were not sent again: no
	// other region may know what a region took in that was lost in that moment.
	Same      int      `json:"same"`
	Different int      `json:"different"`
	Silent    int      `json:"silent"`
	Unsent    int      `json:"unsent"`
	Examples  []string `json:"examples,omitempty"` // of Different
}

// fault says what is wrong; "" if a key means the same in both regions.
func (k *KeyedResult) fault() string {
	switch {
	case k.Different > 0:
		return fmt.Sprintf("%d requests sent again at the other region made another job: %q", k.Different, k.Examples)
	case k.Same == 0:
		return "no request with a key was sent again at the other region and answered"
	}
	return ""
}

// keyed are the requests with keys of one home.
type keyed struct {
	regionsCourse
	home

	mu     sync.Mutex // guards what follows
	acks   *journal.AckWriter
	result *KeyedResult
}

// createKeyed creates jobs of a home one by one, and sends each request again at the other region.
// The judge gets both answers: a run under another id is one that nobody asked for.
func (r regionsCourse) createKeyed(ctx context.Context, h home, t0 time.Time) (err error) {
	source := h.name + keyedSuffix
	n := int(r.cfg.Span / keyedEvery)
	if err := writeJobs(r.askedFile(source), r.part(h, source, n, t0, 0, n, guaranteeKinds(r.cfg.Mix))); err != nil {
		return fmt.Errorf("create %s: %w", source, err)
	}
	bodies, err := keylessLines(r.askedFile(source))
	if err != nil {
		return err
	}
	f, err := createNew(r.acksFile(source))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	k := &keyed{regionsCourse: r, home: h, result: r.report.Regions.Keyed[h.name]}
	if k.acks, err = journal.NewAckWriter(f, source); err != nil {
		return err
	}
	r.keepSource(source)
	g, gctx := errgroup.WithContext(ctx)
	for i, body := range bodies {
		g.Go(func() error {
			if err := wait.Until(gctx, t0.Add(time.Duration(i)*keyedEvery+keyedOffset)); err != nil {
				return err
			}
			if err := k.createOne(gctx, i+1, fmt.Sprintf("%s-%d", source, i+1), body); err != nil {
				return fmt.Errorf("create %s, line %d: %w", source, i+1, err)
			}
			return nil
		})
	}
	err = g.Wait()
	r.keepDue(time.Now())
	return err
}

// keylessLines returns the jobs of a file without their keys.
func keylessLines(path string) (bodies [][]byte, err error) {
	text, err := os.ReadFile(path) // #nosec G304 -- our own
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, journal.MaxLine)
	for sc.Scan() {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(sc.Bytes(), &fields); err != nil {
			return nil, fmt.Errorf("read jobs: %w", err)
		}
		delete(fields, "key")
		body, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("read jobs: %w", err)
		}
		bodies = append(bodies, body)
	}
	return bodies, sc.Err()
}

// createOne creates the job of a line, and asks for it again.
func (k *keyed) createOne(ctx context.Context, line int, key string, body []byte) error {
	ask := func(nodes []string, patience time.Duration) (id string, at time.Time, err error) {
		o, err := askUntil(ctx, k.http, nodes, api.Request{
			Method: http.MethodPost, URL: "/v1/jobs", Type: "application/json", Body: body, Timeout: askTimeout,
			Header: map[string]string{"Carillon-Tenant": k.client.Tenant, "Idempotency-Key": strconv.Quote(key)},
		}, 2*line, patience)
		if err != nil || o.acked.IsZero() {
			return "", time.Now(), errors.Join(err, ctx.Err())
		}
		var made struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(o.body, &made); err != nil {
			return "", o.acked, fmt.Errorf("read answer: %w", err)
		}
		return made.ID, o.acked, nil
	}
	first, at, err := ask(k.client.URLs, askPatient)
	if err != nil {
		return err
	}
	if err := k.note(line, first, at, func(c *KeyedResult) {
		if first != "" {
			c.Created++
		}
	}); err != nil || first == "" {
		return err
	}
	if err := wait.For(ctx, againAfter); err != nil {
		return err
	}
	if k.lossAt(at, ActRegionCut, ActRegionKill) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.result.Unsent++
		return nil
	}
	second, at, err := ask(k.others, againPatient)
	if err != nil {
		return err
	}
	return k.note(line, second, at, func(c *KeyedResult) { c.again(key, first, second) })
}

// again counts a request that was sent again: the ids that it was answered with, "" = with none.
func (k *KeyedResult) again(key, first, second string) {
	switch second {
	case first:
		k.Same++
	case "":
		k.Silent++
	default:
		k.Different++
		if len(k.Examples) < mostExamples {
			k.Examples = append(k.Examples, fmt.Sprintf("%s: job %s, and then %s", key, first, second))
		}
	}
}

// mostExamples bounds what is listed of one kind.
const mostExamples = 5

// note writes an answer down; id "" = there was none.
func (k *keyed) note(line int, id string, at time.Time, count func(c *KeyedResult)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	count(k.result)
	status := http.StatusOK
	if id == "" {
		status = 0
	}
	return errors.Join(k.acks.Write(line, id, status, at), k.acks.Flush())
}

// losses returns the spans in which a region wrote what no other one may have seen before its homes
// were taken over: of cuts until its lease had ended, of kills the last moment.
func (r *recorder) losses(acts ...Act) (all []check.Loss) {
	r.recording.Lock()
	defer r.recording.Unlock()
	for _, e := range r.report.Events {
		for _, act := range acts {
			if e.Act != act {
				continue
			}
			loss := check.Loss{From: e.Began.Add(-replicated), Cut: e.Ended}
			if act == ActRegionCut {
				loss.Cut, loss.Region = loss.Cut.Add(check.LeaseLife), true
			}
			all = append(all, loss)
		}
	}
	return all
}

// lossAt reports whether t is in one of the losses of these acts.
func (r *recorder) lossAt(t time.Time, acts ...Act) bool {
	for _, l := range r.losses(acts...) {
		if l.Holds(t) {
			return true
		}
	}
	return false
}

// lossArgs are these losses for the judge.
func lossArgs(losses []check.Loss) (args []string) {
	for _, l := range losses {
		flag := "--lost"
		if l.Region {
			flag = "--lost-region"
		}
		args = append(args, flag, l.From.Format(time.RFC3339Nano)+","+l.Cut.Format(time.RFC3339Nano))
	}
	return args
}
