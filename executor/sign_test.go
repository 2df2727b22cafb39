package executor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

var _ Signer = (*admin.Signing)(nil)

// signer is a Signer made of a function.
type signer func(tenant, name string) ([][]byte, error)

func (f signer) Secrets(_ context.Context, tenant, name string) ([][]byte, error) {
	return f(tenant, name)
}

func TestAnAttemptIsSignedByTheKeyOfItsTask(t *testing.T) {
	for name, c := range map[string]struct {
		key     string // of the task
		err     error
		asked   string
		outcome schema.Outcome
		error   string
	}{
		"the default":             {"", nil, "t default", schema.Succeeded, ""},
		"there is none":           {"", schema.ErrNotFound, "t default", schema.Succeeded, ""},
		"a stated one":            {"partner", nil, "t partner", schema.Succeeded, ""},
		"a stated one is missing": {"partner", schema.ErrNotFound, "t partner", schema.Failed, "not called: there is no signing key partner"},
		"it cannot be opened":     {"", fmt.Errorf("s3cret: %w", bucketer.ErrSealed), "t default", schema.Failed, "not called: the signing key default cannot be opened by this executor"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var asked atomic.Value
				secret := webhook.NewSecret()
				w.begin("e-1", func(cfg *Config) {
					cfg.Signer = signer(func(tenant, name string) ([][]byte, error) {
						asked.Store(tenant + " " + name)
						if c.err != nil {
							return nil, c.err
						}
						return [][]byte{secret}, nil
					})
				})
				e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work.HTTP.SigningKey = c.key })
				w.publish(e, time.Now())
				time.Sleep(2 * time.Second)
				all := w.attempts(e.Run())
				if len(all) == 0 || all[0].Record == nil || all[0].Record.Outcome != c.outcome || all[0].Record.Error != c.error || all[0].Record.Final || asked.Load() != c.asked {
					t.Fatalf("attempts: got %+v, asked for %q; want %s with %q", all, asked.Load(), c.outcome, c.error)
				}
				calls := w.started()
				if (len(calls) > 0) != (c.outcome == schema.Succeeded) {
					t.Errorf("%d calls, want none of what cannot be signed", len(calls))
				}
				if len(calls) > 0 && (len(calls[0].Secrets) > 0) != (c.err == nil) {
					t.Errorf("the call has %d secrets", len(calls[0].Secrets))
				}
			})
		})
	}
}

// What cannot be read is not taken for "not signed": the message goes back, and no attempt is used
// up.
func TestAnAttemptWaitsForItsKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.begin("e-1", func(cfg *Config) {
			cfg.Signer = signer(func(string, string) ([][]byte, error) {
				if down.Load() {
					return nil, schema.ErrUnavailable
				}
				return nil, schema.ErrNotFound
			})
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		time.Sleep(5 * time.Second)
		if n := len(w.started()); n != 0 {
			t.Errorf("%d calls while the key cannot be read, want none", n)
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		if calls := w.started(); len(calls) != 1 || calls[0].Number != 1 {
			t.Errorf("calls: got %+v, want one, of attempt 1", calls)
		}
		if all := w.happened(); strings.Contains(all, "failed") {
			t.Errorf("what happened: %s; want no failed attempt", all)
		}
	})
}
