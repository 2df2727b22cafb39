package schematest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// maxTries bounds how often Retrying repeats a call.
const maxTries = 100

// retrying repeats what the contract says may be repeated.
type retrying struct{ around }

// Retrying returns store with every call repeated, at once and at most 100 times, while it answers
// ErrUnavailable or ErrUnknown. A conditional write of unknown outcome is not repeated blindly: the
// row is read first, as the contract asks.
func Retrying(store schema.Store) schema.Store {
	return &retrying{around{inner: store, wrap: func(ctx context.Context, c call) error {
		return try(ctx, func() error {
			err := c.do(ctx)
			if c.conditional && errors.Is(err, schema.ErrUnknown) {
				return settled{err}
			}
			return err
		})
	}}}
}

// settled is an error that try must not repeat.
type settled struct{ error }

func (s settled) Unwrap() error { return s.error }

// try repeats do while its outcome is open.
func try(ctx context.Context, do func() error) (err error) {
	for range maxTries {
		err = do()
		var end settled
		open := errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrUnknown)
		if !open || errors.As(err, &end) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// decide does a conditional write until its outcome is known. After an unknown outcome, look reads
// what stands. It reports whether that is what was written (mine), or whether the write may be
// repeated.
func decide(ctx context.Context, do func() error, look func() (mine, again bool, err error)) (err error) {
	for range maxTries {
		err = do()
		if !errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil {
			return err
		}
		mine, again, lookErr := look()
		switch {
		case lookErr != nil:
			return lookErr
		case mine:
			return nil
		case !again:
			return schema.ErrConflict
		}
	}
	return err
}

// askAgain is the look where a write that is repeated is answered as the caller's own.
func askAgain() (mine, again bool, err error) { return false, true, nil }

// orNone takes a row that is not there for the zero value.
func orNone(err error) error {
	if errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	return err
}

func (r *retrying) CancelRun(
	ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time,
) (marks schema.Marks, err error) {
	err = decide(ctx, func() error {
		marks, err = r.around.CancelRun(ctx, id, asRead, mark, expires)
		return err
	}, func() (mine, again bool, err error) {
		marks, err = r.Marks(ctx, id)
		mine = marks.Cancelled != nil && marks.Cancelled.By == mark.By && marks.Cancelled.At.Equal(mark.At)
		return mine, marks.Cancelled == nil && marks.MovedTo == asRead, err
	})
	return marks, err
}

func (r *retrying) MoveRun(
	ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time,
) (marks schema.Marks, err error) {
	err = decide(ctx, func() error {
		marks, err = r.around.MoveRun(ctx, id, asRead, to, expires)
		return err
	}, func() (mine, again bool, err error) {
		marks, err = r.Marks(ctx, id)
		return marks.MovedTo == to, marks.Cancelled == nil && marks.MovedTo == asRead, err
	})
	return marks, err
}

func (r *retrying) SwapSession(ctx context.Context, was, is schema.Session) error {
	executor := is.Executor
	if executor == "" {
		executor = was.Executor
	}
	return decide(ctx, func() error { return r.around.SwapSession(ctx, was, is) }, func() (mine, again bool, err error) {
		stands, err := r.Session(ctx, executor)
		same := func(s schema.Session) bool {
			return stands.ID == s.ID && (s.ID == "" || stands.Expires.Equal(s.Expires))
		}
		return same(is), same(was), orNone(err)
	})
}

func (r *retrying) RegisterKey(
	ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time,
) (inForce schema.KeyRecord, mine bool, err error) {
	err = decide(ctx, func() error {
		inForce, mine, err = r.around.RegisterKey(ctx, tenant, key, claim, expires)
		return err
	}, askAgain)
	return inForce, mine, err
}

func (r *retrying) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	return decide(ctx, func() error { return r.around.SwapJob(ctx, was, j) }, func() (mine, again bool, err error) {
		stands, err := r.Job(ctx, j.ID)
		if was == 0 && errors.Is(err, schema.ErrNotFound) {
			return false, true, nil
		}
		mine, sure := stands.Written(j.Current.Number)
		if err == nil && !sure {
			err = schema.ErrUnknown
		}
		return mine, stands.Current.Number == was, err
	})
}

func (r *retrying) RegisterName(
	ctx context.Context, tenant, name string, id schema.JobID, at time.Time,
) (holder schema.JobID, since time.Time, mine bool, err error) {
	err = decide(ctx, func() error {
		holder, since, mine, err = r.around.RegisterName(ctx, tenant, name, id, at)
		return err
	}, askAgain)
	return holder, since, mine, err
}

func (r *retrying) TransferName(ctx context.Context, tenant, name string, from, to schema.JobID, at time.Time) error {
	return decide(ctx, func() error { return r.around.TransferName(ctx, tenant, name, from, to, at) }, func() (mine, again bool, err error) {
		holder, _, err := r.JobByName(ctx, tenant, name)
		return holder == to, holder == from, orNone(err)
	})
}

func (r *retrying) Decide(ctx context.Context, key, text string, expires time.Time) (decided string, err error) {
	err = decide(ctx, func() error {
		decided, err = r.around.Decide(ctx, key, text, expires)
		return err
	}, askAgain)
	return decided, err
}

func (r *retrying) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (stands schema.Lease, err error) {
	err = decide(ctx, func() error {
		stands, err = r.around.SwapLease(ctx, was, is, expires)
		return err
	}, func() (mine, again bool, err error) {
		stands, err = r.Lease(ctx, is.Key)
		if errors.Is(err, schema.ErrNotFound) {
			stands, err = schema.Lease{Key: is.Key}, nil
		}
		return stands.Same(is), stands.Same(was), err
	})
	return stands, err
}

func (r *retrying) SwapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	if err := is.Follows(was); err != nil {
		return err // what stands at was could be taken for what was written
	}
	return decide(ctx, func() error { return r.around.SwapSigningKeys(ctx, tenant, was, is) }, func() (mine, again bool, err error) {
		stands, err := r.SigningKeys(ctx, tenant)
		return stands.Revision == is.Revision, stands.Revision == was, orNone(err)
	})
}

func (r *retrying) SwapSecret(ctx context.Context, was int64, is schema.Secret) error {
	if err := is.Follows(was); err != nil {
		return err // as in SwapSigningKeys
	}
	return decide(ctx, func() error { return r.around.SwapSecret(ctx, was, is) }, func() (mine, again bool, err error) {
		stands, err := r.Secret(ctx, is.Tenant, is.Name)
		return stands.Revision == is.Revision, stands.Revision == was, orNone(err)
	})
}

func (r *retrying) DeleteSecret(ctx context.Context, tenant, name string, was int64) error {
	return decide(ctx, func() error { return r.around.DeleteSecret(ctx, tenant, name, was) }, askAgain)
}

func (r *retrying) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	return decide(ctx, func() error { return r.around.CreateAPIKey(ctx, k) }, askAgain)
}

func (r *retrying) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (k schema.APIKey, err error) {
	before, err := r.keyNamed(ctx, tenant, name)
	if err != nil {
		return schema.APIKey{}, err
	}
	err = decide(ctx, func() error {
		k, err = r.around.DeleteAPIKey(ctx, tenant, name, at)
		return err
	}, func() (mine, again bool, err error) {
		stands, err := r.keyNamed(ctx, tenant, name)
		switch {
		case errors.Is(err, schema.ErrNotFound), err == nil && stands.Hash != before.Hash:
			k = before
			return true, false, nil
		}
		return false, true, err
	})
	return k, err
}

func (r *retrying) keyNamed(ctx context.Context, tenant, name string) (schema.APIKey, error) {
	keys, err := r.APIKeys(ctx, tenant, "", 10_000)
	for _, k := range keys {
		if err == nil && k.Name == name {
			return k, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("key %s: %w", name, schema.ErrNotFound)
	}
	return schema.APIKey{}, err
}
