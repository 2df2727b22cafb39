package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

var (
	_ Signer  = (*admin.Signing)(nil)
	_ Secrets = (*admin.Secrets)(nil)
)

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

// vault is a Secrets made of a function.
type vault func(tenant, name string) ([][]byte, error)

func (f vault) Values(_ context.Context, tenant, name string) ([][]byte, error) {
	return f(tenant, name)
}

// A call is made with the secrets that its work names, or not at all.
func TestAnAttemptIsMadeWithTheSecretsOfItsWork(t *testing.T) {
	const value = "s3cret-s3cret"
	bearer := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/", Auth: &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "tok"}}}}
	two := schema.Work{HTTP: &schema.HTTPTarget{URL: "https://x.test/", Auth: &schema.HTTPAuth{MTLS: &schema.MTLSAuth{CertificateSecret: "tok", KeySecret: "key"}}}}
	lambda := schema.Work{Lambda: &schema.LambdaTarget{Function: "f", Region: "eu-central-1", Credentials: "aws"}}
	byURL := schema.Work{HTTP: &schema.HTTPTarget{URLSecret: "url"}}
	for name, c := range map[string]struct {
		work    schema.Work
		err     error // of the last secret
		none    bool  // the executor has no Secrets
		asked   string
		outcome schema.Outcome
		error   string
	}{
		"one":                     {bearer, nil, false, "t tok", schema.Succeeded, ""},
		"two":                     {two, nil, false, "t tok, t key", schema.Succeeded, ""},
		"of a function":           {lambda, nil, false, "t aws", schema.Succeeded, ""},
		"its URL":                 {byURL, nil, false, "t url", schema.Succeeded, ""},
		"its URL is missing":      {byURL, schema.ErrNotFound, false, "t url", schema.Failed, "not called: there is no secret url"},
		"it is missing":           {bearer, fmt.Errorf("%s: %w", value, schema.ErrNotFound), false, "t tok", schema.Failed, "not called: there is no secret tok"},
		"the second is missing":   {two, schema.ErrNotFound, false, "t tok, t key", schema.Failed, "not called: there is no secret key"},
		"it cannot be opened":     {bearer, fmt.Errorf("%s: %w", value, bucketer.ErrSealed), false, "t tok", schema.Failed, "not called: the secret tok cannot be opened by this executor"},
		"it cannot be understood": {lambda, fmt.Errorf("%s: %w", value, schema.ErrNotUnderstood), false, "t aws", schema.Failed, "not called: what is stored of the secret aws cannot be understood"},
		"there are no secrets":    {bearer, nil, true, "", schema.Failed, "not called: there is no secret tok"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var mu sync.Mutex
				var asked []string
				w.begin("e-1", func(cfg *Config) {
					if c.none {
						return
					}
					cfg.Secrets = vault(func(tenant, name string) ([][]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						asked = append(asked, tenant+" "+name)
						if c.err != nil && (name != "tok" || c.work.Secrets()[len(c.work.Secrets())-1] == name) {
							return nil, c.err
						}
						return [][]byte{[]byte(value + name)}, nil
					})
				})
				e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work = &c.work })
				w.publish(e, time.Now())
				time.Sleep(2 * time.Second)
				all := w.attempts(e.Run())
				if len(all) == 0 || all[0].Record == nil || all[0].Record.Outcome != c.outcome || all[0].Record.Error != c.error || all[0].Record.Final {
					t.Fatalf("attempts: got %+v; want %s with %q, not final", all, c.outcome, c.error)
				}
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(asked, ", "); got != c.asked {
					t.Errorf("asked for %q, want %q", got, c.asked)
				}
				calls := w.started()
				if (len(calls) > 0) != (c.outcome == schema.Succeeded) {
					t.Fatalf("%d calls, want none without its secrets", len(calls))
				}
				for _, name := range c.work.Secrets() {
					if len(calls) > 0 && (len(calls[0].Values[name]) != 1 || string(calls[0].Values[name][0]) != value+name) {
						t.Errorf("the call has not the value of %s", name)
					}
				}
				for _, text := range []string{w.happened(), fmt.Sprintf("%+v", calls)} {
					if strings.Contains(text, value) || strings.Contains(text, fmt.Sprint([]byte(value))) {
						t.Errorf("what happened holds a secret: %s", text)
					}
				}
			})
		})
	}
}

// A store that does not answer is no missing secret: the message goes back, and no attempt is used.
func TestAnAttemptWaitsForItsSecret(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.begin("e-1", func(cfg *Config) {
			cfg.Secrets = vault(func(string, string) ([][]byte, error) {
				if down.Load() {
					return nil, schema.ErrUnavailable
				}
				return [][]byte{[]byte("value")}, nil
			})
		})
		e := w.entry(inAWhile(time.Second), func(s *schema.Spec) {
			s.Work.HTTP.Auth = &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "tok"}}
		})
		w.publish(e, time.Now())
		time.Sleep(5 * time.Second)
		if n := len(w.started()); n != 0 {
			t.Errorf("%d calls while the secret cannot be read, want none", n)
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		if calls := w.started(); len(calls) != 1 || calls[0].Number != 1 {
			t.Errorf("calls: got %+v, want one, of attempt 1", calls)
		}
	})
}

// Calls that are not made for want of a secret say nothing of their target: its circuit stays as it
// is.
func TestAMissingSecretIsNoFaultOfTheTarget(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("e-1", func(cfg *Config) {
			cfg.Secrets = vault(func(string, string) ([][]byte, error) { return nil, schema.ErrNotFound })
		})
		for range 60 {
			w.publish(w.entry(inAWhile(time.Second), func(s *schema.Spec) {
				s.Work.HTTP.Auth = &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "tok"}}
				s.Work.Retry = &schema.Retry{MaxAttempts: 1}
			}), time.Now())
		}
		time.Sleep(5 * time.Second)
		for _, state := range x.TargetStates("t") {
			if state.Circuit != "closed" || state.Failures > 0 {
				t.Errorf("the target is %+v, want its circuit closed", state)
			}
		}
	})
}
