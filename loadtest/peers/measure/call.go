package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Sink receives the calls of runs and writes them down.
type Sink struct {
	URL    string       // without a slash at the end
	Record string       // the file it writes, complete after End
	PID    int          // of its process; 0 = it is part of this one
	End    func() error // stops it and waits for it
}

const (
	callTimeout = 30 * time.Second // of a call
	idleCalls   = 4096             // connections kept; more than there are workers
	warmWave    = 0
	realWave    = 1
)

// source names a wave in the paths that the sink is called by.
func source(wave int) string { return "w" + strconv.Itoa(wave) }

// address is where the call of a job goes.
func (s *Sink) address(job Job) string {
	return s.URL + "/" + source(job.Wave) + "/" + strconv.Itoa(job.I+1) // the sink counts from 1
}

// A caller calls a sink.
type caller struct {
	sink   *Sink
	client *http.Client
	body   string
	named  bool // calls name their job as Carillon's do, so that the sink counts those that differ
}

func newCaller(sink *Sink, payload int) *caller {
	return &caller{sink: sink, body: Pad(payload), client: &http.Client{
		Timeout:   callTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: idleCalls, MaxIdleConns: 0, IdleConnTimeout: time.Minute, DisableCompression: true},
	}}
}

// call makes the call of a run. Anything but 2xx is an error.
func (c *caller) call(ctx context.Context, job Job) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.sink.address(job), strings.NewReader(c.body))
	if err != nil {
		return fmt.Errorf("call the sink: %w", err)
	}
	if c.named {
		req.Header.Set("Carillon-Run-Id", source(job.Wave)+"-"+strconv.Itoa(job.I))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("call the sink: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("call the sink: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("call the sink: %s", resp.Status)
	}
	return nil
}
