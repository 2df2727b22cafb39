package node

import (
	"net/http"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// letter waits for the dead letter of a run that fails for good.
func (r *running) letter(run schema.RunID) (l httpapi.DeadLetter) {
	r.t.Helper()
	c := r.client()
	await(r.t, "run "+run.String()+" has a dead letter", func() bool {
		var err error
		l, err = c.DeadLetter(r.t.Context(), run)
		return err == nil
	})
	return l
}

func TestNodeKeepsDeadLettersForAsLongAsItIsTold(t *testing.T) {
	w := newWorld(t, "a")
	// which is final
	url := sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	const retention = 50 * time.Hour
	r := startWith(t, "a", w.opener("a"), nil, func(c *config.Config) { c.DeadLetters.Retention = retention }).up()
	l := r.letter(schema.RunID(r.create(url, time.Time{}).ID))
	if kept := l.ExpiresAt.Sub(l.FailedAt.Time); kept.Round(time.Second) != retention {
		t.Errorf("a dead letter is kept for %v, want %v", kept, retention)
	}
}
