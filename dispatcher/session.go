package dispatcher

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

// startSessions finds out whether the sessions still stand under which watched attempts run, and has the entries of those that fell looked at
// at once: a run whose executor died begins again when that is known, not at its next look. It costs a read for each
// executor, not for each run.
func (s *shard) startSessions(ctx context.Context) {
	of := s.book.watched()
	if len(of) == 0 {
		return
	}
	s.asking = true
	var fallen []schema.EntryID
	s.work(ctx, func(ctx context.Context) error {
		for h, ids := range of {
			ref := schema.SessionRef{Executor: h.executor, ID: h.id, Guarded: h.guarded}
			stands, err := s.d.live.Of(ctx, []schema.Attempt{{Session: &ref}})
			if err != nil {
				return err
			}
			if !stands(ref) {
				fallen = append(fallen, ids...)
			}
		}
		return nil
	}, func(_ time.Time, err error) {
		s.asking = false
		if err != nil {
			s.failed(ctx, "sessions", err)
		}
		for _, id := range fallen {
			if o, ok := s.book.open[id]; ok && o.phase == watching {
				o.session = holder{} // once
				s.lookNow = append(s.lookNow, id)
			}
		}
	})
}
