package httpapi

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// befall has the stub answer err to what is asked from now on; nil: to nothing.
func (s *stub) befall(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// befall is stub.befall, for what the stub keeps.
func (o *adminStub) befall(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// stubLetters are the dead letters of runs that a stub has: those that failed, and were not
// discarded.
type stubLetters struct {
	b           *stub
	resolutions map[schema.RunID]schema.ResolutionKind
	replays     map[schema.RunID]schema.RunID
}

func (s *stubLetters) letter(run *runs.Run) schema.DeadLetter {
	l := schema.DeadLetter{
		Tenant: run.Entry.Spec.Tenant, Run: run.ID, Entry: run.Entry, Attempts: 1, Began: run.ID.Time(), Expires: testNow.Add(30 * 24 * time.Hour),
		Last: schema.Record{Outcome: schema.Failed, Finished: run.ID.Time().Add(time.Second), Error: "answered 500", Final: true},
	}
	if ending, ok := s.resolutions[run.ID]; ok {
		l.Resolution = &schema.Resolution{Kind: ending, At: testNow}
	}
	return l
}

func (s *stubLetters) DeadLetters(ctx context.Context, q runs.DeadLetterQuery, _ *runs.DeadLetterPosition, limit int) ([]schema.DeadLetter, *runs.DeadLetterPosition, error) {
	runs, _, err := s.b.Runs(ctx, runs.Window{Tenant: q.Tenant, From: q.From, To: q.To, Filter: runs.Filter{States: []schema.State{schema.StateFailed}}}, runs.Position{}, limit)
	var out []schema.DeadLetter
	for i := range runs {
		if s.resolutions[runs[i].ID] == "" {
			out = append(out, s.letter(&runs[i]))
		}
	}
	return out, nil, err
}

func (s *stubLetters) DeadLetter(ctx context.Context, tenant string, id schema.RunID) (runs.DeadLetter, error) {
	run, err := s.b.Run(ctx, tenant, id)
	if err == nil && (run.State != schema.StateFailed || s.resolutions[id] == schema.ResolvedDiscarded) {
		err = fmt.Errorf("dead letter %s: %w", id, schema.ErrNotFound)
	}
	if err != nil {
		return runs.DeadLetter{}, err
	}
	l := s.letter(&run)
	return runs.DeadLetter{DeadLetter: l, Attempted: []schema.Attempt{{Run: id, Number: 1, Record: &l.Last}}}, nil
}

func (s *stubLetters) Replay(ctx context.Context, tenant string, id schema.RunID, _ string) (bucketer.Receipt, error) {
	l, err := s.DeadLetter(ctx, tenant, id)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if len(l.Entry.Payload) == 0 {
		return bucketer.Receipt{}, fmt.Errorf("replay %s: %w", id, runs.ErrPayloadGone)
	}
	s.resolutions[id] = schema.ResolvedReplayed
	spec := &l.Entry.Spec
	r, err := s.b.Submit(ctx, bucketer.Job{Tenant: tenant, Task: spec.Task, Work: spec.Work, Payload: l.Entry.Payload, Trigger: schema.TriggerRetry, Origin: id})
	s.replays[id] = r.Run
	return r, err
}

func (s *stubLetters) Discard(ctx context.Context, tenant string, id schema.RunID, _ string) (bool, error) {
	if _, err := s.DeadLetter(ctx, tenant, id); err != nil {
		return false, err
	}
	s.resolutions[id] = schema.ResolvedDiscarded
	return true, nil
}

func (s *stubLetters) Resolutions(_ context.Context, _ string, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	all := map[schema.RunID]*schema.Resolution{}
	for _, id := range runs {
		all[id] = nil
		if kind := s.resolutions[id]; kind != "" {
			all[id] = &schema.Resolution{Kind: kind, Run: s.replays[id]}
		}
	}
	return all, nil
}

func (s *stubLetters) States(_ context.Context, replays []schema.RunID) (map[schema.RunID]schema.State, error) {
	states := map[schema.RunID]schema.State{}
	for _, id := range replays {
		states[id] = schema.StatePending
	}
	return states, nil
}
