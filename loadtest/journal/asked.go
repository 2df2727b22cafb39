package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// MaxLine bounds a line of any journal, in bytes. It is above the limit of an import line (the
// API's).
const MaxLine = 512 << 10

// Payload is the payload of a job made by this load test: it says which job it is.
type Payload struct {
	Ref string `json:"ref"`
	Pad string `json:"pad,omitempty"`
}

// RefOfPayload returns the Ref that a payload names; zero if it names none.
func RefOfPayload(payload []byte) check.Ref {
	var p Payload
	if json.Unmarshal(payload, &p) != nil {
		return check.Ref{}
	}
	ref, _ := check.ParseRef(p.Ref)
	return ref
}

// askedLine is the part of a job that is judged.
type askedLine struct {
	Key  string `json:"key"`
	Task string `json:"task"`
	HTTP struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	} `json:"http"`
	Schedule *struct {
		At    time.Time `json:"at"`
		Cron  string    `json:"cron"`
		Every string    `json:"every"`
	} `json:"schedule"`
	Requires    map[string]string `json:"requires"`
	Preemptible bool              `json:"preemptible"`
	Priority    string            `json:"priority"`
	Payload     json.RawMessage   `json:"payload"`
	Guarantee   check.Guarantee   `json:"guarantee"`
	Region      json.RawMessage   `json:"region"` // a name, or an object
	Retry       struct {
		MaxAttempts int     `json:"max_attempts"`
		Initial     string  `json:"initial"`
		Factor      float64 `json:"factor"`
		Max         string  `json:"max"`
		Jitter      string  `json:"jitter"`
	} `json:"retry"`
	Misfire struct {
		Policy   string `json:"policy"`
		Deadline string `json:"deadline"`
	} `json:"misfire"`
}

// ReadAsked reads one-off jobs, one a line, in order. A recurring job is an error.
func ReadAsked(r io.Reader, source string) ([]check.Ask, error) {
	var asks []check.Ask
	sc := scanner(r)
	for line := 1; sc.Scan(); line++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		a, err := parseAsked(sc.Bytes())
		if err != nil {
			return nil, fmt.Errorf("read asked jobs of %s, line %d: %w", source, line, err)
		}
		a.Ref = check.Ref{Source: source, Line: line}
		asks = append(asks, a)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read asked jobs of %s: %w", source, err)
	}
	return asks, nil
}

func parseAsked(b []byte) (check.Ask, error) {
	var l askedLine
	if err := json.Unmarshal(b, &l); err != nil {
		return check.Ask{}, err
	}
	a := check.Ask{
		Key: l.Key, Task: l.Task, Guarantee: l.Guarantee, MaxAttempts: l.Retry.MaxAttempts,
		Misfire: check.Misfire{Policy: l.Misfire.Policy}, Requires: l.Requires,
		Preemptible: l.Preemptible && l.Priority == "low",
	}
	if err := asCarried(&a, &l); err != nil {
		return check.Ask{}, err
	}
	var region struct {
		Name    string `json:"name"`
		Require bool   `json:"require"`
	}
	if bytes.HasPrefix(l.Region, []byte("{")) {
		if err := json.Unmarshal(l.Region, &region); err != nil {
			return check.Ask{}, fmt.Errorf("region: %w", err)
		}
	}
	if region.Require { // without a name it is that of the job's home, which is not known here
		a.Region = region.Name
	}
	if s := l.Schedule; s != nil {
		if s.Cron != "" || s.Every != "" {
			return check.Ask{}, fmt.Errorf("a recurring job, which the checker cannot judge")
		}
		a.At = s.At
	}
	if l.Retry.Jitter == "none" { // with jitter the policy bounds no wait from below
		// the defaults of the API
		a.Retry = check.Retry{Initial: time.Second, Factor: 2, Max: 10 * time.Minute, Exact: true}
		if l.Retry.Factor > 0 {
			a.Retry.Factor = l.Retry.Factor
		}
		for _, span := range []struct {
			name, text string
			into       *time.Duration
		}{{"initial", l.Retry.Initial, &a.Retry.Initial}, {"max", l.Retry.Max, &a.Retry.Max}} {
			if span.text == "" {
				continue
			}
			d, err := time.ParseDuration(span.text)
			if err != nil {
				return check.Ask{}, fmt.Errorf("retry %s: %w", span.name, err)
			}
			*span.into = d
		}
	}
	if l.Misfire.Deadline != "" {
		d, err := time.ParseDuration(l.Misfire.Deadline)
		if err != nil {
			return check.Ask{}, fmt.Errorf("misfire deadline: %w", err)
		}
		a.Misfire.Deadline = d
	}
	return a, nil
}

// asCarried notes the content of the job's calls. A job of a task has the headers of the task.
func asCarried(a *check.Ask, l *askedLine) error {
	if l.Task != "" || len(l.Payload) == 0 {
		return nil
	}
	var body bytes.Buffer
	if err := json.Compact(&body, l.Payload); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	a.Known, a.Body = true, check.Hash(0).Add(body.Bytes())
	for name, value := range l.HTTP.Headers {
		if name = textproto.CanonicalMIMEHeaderKey(name); IsCustom(name) {
			a.Custom = a.Custom.AddHeader(name, value)
		}
	}
	return nil
}

// IsCustom reports whether a header, by its canonical name, is the job's own and not Carillon's.
func IsCustom(name string) bool { return strings.HasPrefix(name, "X-") && name != "X-Idempotency-Key" }

// SourceOf returns the source of a file of jobs; see the package comment. It reads the first line
// only.
func SourceOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("find source: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	sc := scanner(f)
	if !sc.Scan() {
		if err := sc.Err(); err != nil {
			return "", fmt.Errorf("find source of %s: %w", path, err)
		}
		return name, nil
	}
	var l askedLine
	if json.Unmarshal(sc.Bytes(), &l) != nil {
		return name, nil // a bad line is for the API to refuse
	}
	if u, err := url.Parse(l.HTTP.URL); err == nil {
		if ref, ok := check.ParseRef(u.Path); ok {
			return ref.Source, nil
		}
	}
	if ref := RefOfPayload(l.Payload); !ref.IsZero() { // jobs of a task state no address
		return ref.Source, nil
	}
	return name, nil
}

// ReadFile reads a file by one of the functions of this package.
func ReadFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	f, err := os.Open(path)
	if err != nil {
		var none T
		return none, fmt.Errorf("open evidence: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	t, err := read(f)
	if err != nil {
		return t, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return t, nil
}

func scanner(r io.Reader) *bufio.Scanner {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	return sc
}
