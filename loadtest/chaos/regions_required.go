package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// required is the tenant, and the source, of jobs that require region eu: requiredRate of them
	// a second are due, through all faults. They are imported before the first one.
	required     = "required"
	requiredRate = 2
	// looksEvery lies between two looks at one of them that is due and has not ended.
	looksEvery = 100 * time.Millisecond
)

// requiredKinds are jobs of all guarantees that eu alone may run.
func requiredKinds() []workload.Kind {
	kinds := guaranteeKinds(everywhereMix)
	for i := range kinds {
		kinds[i].Region = lostHome
	}
	return kinds
}

// requiredHome is that of eu, as the tenant of these jobs uses it.
func (r regionsCourse) requiredHome() home {
	h := r.homes()[0]
	h.sink = r.apart[required]
	h.client = &api.Client{URLs: h.client.URLs, HTTP: r.http, Log: r.log, Tenant: required}
	return h
}

// importRequired imports the jobs that require eu.
func (r regionsCourse) importRequired(ctx context.Context, t0 time.Time) error {
	n := max(int(r.cfg.Span.Seconds())*requiredRate, 1)
	return r.importAs(ctx, r.requiredHome(), required, n, t0, r.cfg.Span, 0, requiredKinds())
}

func (r *run) requiredLooks() string { return filepath.Join(r.cfg.Dir, required+".states.ndjson") }

// lookAtRequired looks at these jobs one after the other, from when one is due until it has ended,
// and writes down what each waits for. It ends some time after the span.
func (r regionsCourse) lookAtRequired(ctx context.Context, t0 time.Time) (err error) {
	acks, err := journal.ReadFile(r.acksFile(required), journal.ReadAcks)
	if err != nil {
		return err
	}
	var runs []string
	for i := range acks {
		if acks[i].ID != "" {
			runs = append(runs, acks[i].ID)
		}
	}
	slices.Sort(runs) // by their due times
	f, err := createNew(r.requiredLooks())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Where nothing is cut or killed.
	client := &api.Client{URLs: r.client.URLs, HTTP: r.http, Log: r.log, Tenant: required}
	next := 0
	for end := t0.Add(r.cfg.Span); time.Now().Before(end) && len(runs) > 0; {
		if err := wait.For(ctx, looksEvery); err != nil {
			return err
		}
		next %= len(runs)
		run, found, err := client.Run(ctx, runs[next])
		now := time.Now().UTC()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || !found:
			next++ // it is read again in the next round
			continue
		case run.DueAt.After(now):
			next = 0 // neither are those behind it
			continue
		case run.State.Terminal():
			runs = slices.Delete(runs, next, next+1)
		default:
			next++
		}
		if err := journal.WriteLine(f, check.Watched{Run: run.ID, State: run.State, At: now, Due: run.DueAt, Waits: run.Waiting.Reason}); err != nil {
			return err
		}
	}
	return nil
}

// awayOf returns the spans in which another region served the home that is named after one.
func awayOf(region string, epochs []check.Epoch) (all []check.Away) {
	epochs = slices.DeleteFunc(slices.Clone(epochs), func(e check.Epoch) bool { return e.Home != region })
	slices.SortFunc(epochs, func(a, b check.Epoch) int { return a.At.Compare(b.At) })
	for i, e := range epochs {
		if e.Region == region {
			continue
		}
		away := check.Away{Region: region, From: e.At, To: e.At.Add(time.Hour)}
		if i+1 < len(epochs) {
			away.To = epochs[i+1].At
		}
		if n := len(all); n > 0 && all[n-1].To.Equal(away.From) {
			all[n-1].To = away.To
			continue
		}
		all = append(all, away)
	}
	return all
}

// judgeRequired judges the jobs that require eu: no other region starts one, and while eu does not
// serve its home they say that they wait for it. They may be as late as it was away, and twice as
// much again: by that a start is put off that was put off so often.
func (r regionsCourse) judgeRequired(ctx context.Context, out io.Writer) error {
	res := r.report.Regions
	late, away := r.cfg.Late.Max, awayOf(lostHome, res.Epochs)
	args := []string{"--tenant", required, "--asked", r.askedFile(required), "--acks", r.acksFile(required), "--states", r.requiredLooks()}
	for _, a := range away {
		late += 3 * a.To.Sub(a.From)
		args = append(args, "--away", fmt.Sprintf("%s,%s,%s", a.Region, a.From.Format(time.RFC3339Nano), a.To.Format(time.RFC3339Nano)))
	}
	args = append(args, lossArgs(r.losses(ActRegionCut))...)
	args = append(args, "--max-lateness", late.String(), "--max-lateness-p99", "0s", "--wait", max(late, r.cfg.Wait).String())
	res.Away = len(away)
	if err := judging(r).by(ctx, "check-"+required, r.apart[required], args, out, &res.Required); err != nil {
		return err
	}
	r.figure("jobs that require their region", "%d acknowledged; %d started elsewhere, %d seen to wait for it, %d that did not say so",
		res.Required.Acknowledged, res.Required.Elsewhere, res.Required.WaitedForRegion, res.Required.WaitedSilently)
	return nil
}

// requiredFaults says what is wrong with the jobs that require eu.
func (res *RegionsResult) requiredFaults() []string {
	faults := (&Report{Check: res.Required}).verdicts()
	if n, silent := res.Required.Elsewhere, res.Required.WaitedSilently; n+silent > 0 {
		faults = append(faults, fmt.Sprintf("%d started in another region, %d waited for theirs and did not say so", n, silent))
	}
	if res.Away > 0 && res.Required.WaitedForRegion == 0 {
		faults = append(faults, "none was seen to wait for its region")
	}
	return faults
}
