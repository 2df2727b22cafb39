package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/events"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// stubEvents are the events of a stub, in the order in which they came. They are part of it, and under
// its lock.
type stubEvents struct {
	list []schema.Entry
	runs map[schema.EntryID][]runs.Run
	// hearers are those of each event, by its name.
	hearers map[string]events.Hearers
	keys    map[string]stubEventKey
}

type stubEventKey struct {
	hash string
	id   schema.EntryID
}

func (s *stub) Publish(_ context.Context, tenant, name string, body json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return bucketer.Receipt{}, s.err
	}
	if known, ok := s.events.keys[tenant+"/"+name+"/"+key]; ok && key != "" {
		if known.hash != bodyHash {
			return bucketer.Receipt{}, fmt.Errorf("publish: %w", bucketer.ErrKeyReused)
		}
		return bucketer.Receipt{Run: known.id, Existing: true}, nil
	}
	id := schema.MakeEntryID(testNow, 1, uint64(len(s.events.list)+1))
	e := schema.Entry{ID: id, Payload: body, Spec: schema.Spec{Tenant: tenant, Kind: schema.KindEvent, Of: id, Event: &schema.Event{Name: name}}}
	s.events.list = append(s.events.list, e)
	if s.events.keys == nil {
		s.events.keys = make(map[string]stubEventKey)
	}
	s.events.keys[tenant+"/"+name+"/"+key] = stubEventKey{bodyHash, id}
	return bucketer.Receipt{Run: id}, nil
}

func (s *stub) Event(_ context.Context, tenant string, id schema.EntryID) (schema.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.events.list, func(e schema.Entry) bool { return e.ID == id && e.Spec.Tenant == tenant }); i >= 0 {
		return s.events.list[i], s.err
	}
	return schema.Entry{}, fmt.Errorf("event: %w", schema.ErrNotFound)
}

func (s *stub) Events(_ context.Context, w runs.Window, name string, pos runs.Position, limit int) ([]schema.Entry, *runs.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []schema.Entry
	for _, e := range s.events.list {
		if e.Spec.Tenant != w.Tenant || name != "" && e.Spec.Event.Name != name || e.ID.Compare(pos.After) <= 0 || e.Due().Before(w.From) || !e.Due().Before(w.To) {
			continue
		}
		if found = append(found, e); len(found) == limit {
			return found, &runs.Position{After: e.ID}, s.err
		}
	}
	return found, nil, s.err
}

func (s *stub) RunsOf(ctx context.Context, tenant string, id schema.EntryID, from, limit int) ([]runs.Run, bool, error) {
	if _, err := s.Event(ctx, tenant, id); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.events.runs[id]
	all = all[min(from, len(all)):]
	if len(all) > limit {
		return all[:limit], true, s.err
	}
	return all, false, s.err
}

func (s *stub) Hearers(_ context.Context, _, event string, _ int) (events.Hearers, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events.hearers[event], s.err
}
