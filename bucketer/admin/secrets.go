package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// secretFresh and secretAge are how long a secret is not read again, and is used.
	secretFresh = 5 * time.Second
	secretAge   = 10 * time.Second
	// secretCacheSize bounds the secrets kept in memory, in units of secretUnit bytes and one each:
	// 64 MiB.
	secretCacheSize = 64 << 10
	secretUnit      = 1 << 10
	// secretTries bounds how often a change is made again after a conflict.
	secretTries = 5
)

// SecretOverlap is for how long a value that was replaced can still be opened. Calls are made with
// the newest value; one before it is of use only where two secrets belong together and are put one
// after the other, such as a certificate and its key.
const SecretOverlap = time.Hour

// ErrManySecrets: the tenant has as many secrets as there may be (409).
var ErrManySecrets = errors.New("there are as many secrets as there may be")

// secretName is where a secret is found.
type secretName struct{ tenant, name string }

// Secrets keeps the values that tenants' calls are made with. Its methods may be called from any
// goroutine.
//
// A value is put, sealed (Keyring), and never answered. Executors call Values before each call that
// needs one, which answers from memory.
type Secrets struct {
	store   schema.SecretStore
	keyring *Keyring
	signals bucketer.Signaller
	now     func() time.Time

	cache *refreshingCache[secretName, []openSecret]
	uses  *secretUses
}

// NewSecrets returns Secrets over store. Uses are noted only while Run runs; audit may be nil.
func NewSecrets(
	store schema.SecretStore, keyring *Keyring, signals bucketer.Signaller, audit func(AuditEvent), node string, now func() time.Time,
	log *slog.Logger, reg prometheus.Registerer,
) *Secrets {
	s := &Secrets{store: store, keyring: keyring, signals: signals, now: now, uses: newSecretUses(store, audit, node, log, reg)}
	s.cache = newRefreshingCache(s.read, now, secretFresh, secretAge, secretCacheSize)
	s.cache.weigh = func(all []openSecret) int {
		bytes := 0
		for i := range all {
			bytes += len(all[i].secret)
		}
		return 1 + bytes/secretUnit
	}
	return s
}

// read reads and opens a secret.
func (s *Secrets) read(ctx context.Context, at secretName) ([]openSecret, error) {
	stored, err := s.store.Secret(ctx, at.tenant, at.name)
	if err != nil {
		return nil, err
	}
	open := make([]openSecret, len(stored.Versions))
	for i := range stored.Versions {
		open[i].until = stored.Versions[i].Until
		open[i].secret, open[i].err = s.open(at, &stored.Versions[i])
	}
	return open, nil
}

func (s *Secrets) open(at secretName, v *schema.SecretVersion) ([]byte, error) {
	return s.keyring.Open(v.SealedWith, v.Sealed, placeOfSecret(at, v.Number))
}

// placeOfSecret is what a version is sealed for. One that is moved to another row, or to another
// place among the versions, cannot be opened.
func placeOfSecret(at secretName, number int64) string {
	return "secret\x00" + at.tenant + "\x00" + at.name + "\x00" + strconv.FormatInt(number, 10)
}

// Values returns the values of a secret for a call that is made now: the one in force, and then
// those that it has replaced within SecretOverlap. It notes the use. It answers ErrNotFound if
// there is no such secret, and bucketer.ErrSealed if the one in force cannot be opened here. Other
// errors are the store's.
func (s *Secrets) Values(ctx context.Context, tenant, name string) ([][]byte, error) {
	at, now := secretName{tenant, name}, s.now()
	all, err := s.cache.of(ctx, at)
	if err == nil {
		err = all[0].err // a secret without a version is not understood
	}
	s.uses.note(at, now, err)
	if err != nil {
		return nil, err
	}
	values := make([][]byte, 0, len(all))
	for _, o := range all {
		if o.err == nil && (o.until.IsZero() || now.Before(o.until)) {
			values = append(values, o.secret)
		}
	}
	return values, nil
}

// Put gives a secret a value, and makes the secret if there is none. The value that stands already
// makes no new version: it is sealed again, with the operator's key that is now the first. It
// answers ErrNoSeal, ErrManySecrets.
func (s *Secrets) Put(ctx context.Context, tenant, name string, value []byte, by string) (stored schema.Secret, created bool, err error) {
	at := secretName{tenant, name}
	for range secretTries {
		was, err := s.store.Secret(ctx, tenant, name)
		if created = errors.Is(err, schema.ErrNotFound); created {
			err = s.mayAdd(ctx, tenant)
		}
		if err != nil {
			return schema.Secret{}, false, fmt.Errorf("put secret: %w", err)
		}
		is, err := s.next(at, was, value, by)
		if err != nil {
			return schema.Secret{}, false, fmt.Errorf("put secret: %w", err)
		}
		err = s.store.SwapSecret(ctx, was.Revision, is)
		if s.changed(at, err); err == nil {
			return is, created, nil
		}
		if !errors.Is(err, schema.ErrConflict) {
			return schema.Secret{}, false, fmt.Errorf("put secret: %w", err)
		}
	}
	return schema.Secret{}, false, fmt.Errorf("put secret: %w: %w", schema.ErrUnavailable, schema.ErrConflict) // others change it all the time
}

// mayAdd answers ErrManySecrets if a tenant has as many secrets as it may. Two that add at once may
// both find room for one.
func (s *Secrets) mayAdd(ctx context.Context, tenant string) error {
	all, err := s.store.Secrets(ctx, tenant, "", schema.MaxSecrets)
	if err == nil && len(all) >= schema.MaxSecrets {
		err = ErrManySecrets
	}
	return err
}

// next returns what becomes of a secret by a value.
func (s *Secrets) next(at secretName, was schema.Secret, value []byte, by string) (schema.Secret, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	v := schema.SecretVersion{Number: 1, CreatedAt: now, CreatedBy: by}
	is := schema.Secret{Tenant: at.tenant, Name: at.name, CreatedAt: now, CreatedBy: by}
	var older []schema.SecretVersion
	if len(was.Versions) > 0 {
		is, older = was, was.Versions
		v.Number = older[0].Number + 1
		if stands, err := s.open(at, &older[0]); err == nil && subtle.ConstantTimeCompare(stands, value) == 1 {
			v, older = older[0], older[1:]
		}
	}
	var err error
	if v.SealedWith, v.Sealed, err = s.keyring.Seal(value, placeOfSecret(at, v.Number)); err != nil {
		return is, err
	}
	is.Versions = append(make([]schema.SecretVersion, 0, schema.MaxSecretVersions), v)
	end := now.Add(SecretOverlap)
	for _, old := range older {
		if old.Until.IsZero() {
			old.Until = end
		}
		if old.Until.After(now) && len(is.Versions) < schema.MaxSecretVersions {
			is.Versions = append(is.Versions, old)
		}
	}
	// Two concurrent changes must not draw the same revision: one would be taken for the other.
	is.Revision = max(was.Revision, now.UnixMicro()) + 1 + rand.Int64N(signingDraw)
	return is, nil
}

// changed forgets the secret everywhere after a change that was made, or may have been.
func (s *Secrets) changed(at secretName, err error) {
	if err == nil || errors.Is(err, schema.ErrUnknown) {
		s.cache.forget(at)
		s.signals.Signal(schema.TopicSecret, []byte(at.tenant+"\n"+at.name))
	}
}

// Delete removes a secret and returns what it was, or ErrNotFound. Within 10 s no call is made with
// it.
func (s *Secrets) Delete(ctx context.Context, tenant, name string) (was schema.Secret, err error) {
	at := secretName{tenant, name}
	for range secretTries {
		if was, err = s.store.Secret(ctx, tenant, name); err == nil {
			err = s.store.DeleteSecret(ctx, tenant, name, was.Revision)
			s.changed(at, err)
		}
		if err == nil {
			return was, nil
		}
		if !errors.Is(err, schema.ErrConflict) {
			return schema.Secret{}, fmt.Errorf("delete secret: %w", err)
		}
	}
	return schema.Secret{}, fmt.Errorf("delete secret: %w: %w", schema.ErrUnavailable, err) // others change it all the time
}

// Secret returns what is known of a secret, or ErrNotFound; its values stay sealed.
func (s *Secrets) Secret(ctx context.Context, tenant, name string) (schema.Secret, error) {
	return s.store.Secret(ctx, tenant, name)
}

// Secrets returns at most limit secrets of a tenant with a name after `after`, in name order; their
// values stay sealed.
func (s *Secrets) Secrets(ctx context.Context, tenant, after string, limit int) ([]schema.Secret, error) {
	return s.store.Secrets(ctx, tenant, after, limit)
}

// Changed forgets a secret. body is that of a signal of topic "secret".
func (s *Secrets) Changed(body []byte) {
	if tenant, name, ok := strings.Cut(string(body), "\n"); ok {
		s.cache.forget(secretName{tenant, name})
	}
}

// Run writes the uses of secrets, until ctx ends. It returns nil.
func (s *Secrets) Run(ctx context.Context) error { return s.uses.run(ctx) }
