package executor

import (
	"context"
	"errors"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// signing returns the secrets by which a call of the tenant is signed that names that key, or none.
// A call that must be signed and cannot be is not made: a fault is for the record of its attempt.
// An error is the store's, and the message goes back.
func (x *Executor) signing(ctx context.Context, tenant, name string) (secrets [][]byte, fault string, err error) {
	stated := name != ""
	if !stated {
		name = schema.DefaultSigningKey
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	secrets, err = x.signer.Secrets(bounded, tenant, name)
	switch {
	case err == nil:
		return secrets, "", nil
	case errors.Is(err, schema.ErrNotFound) && !stated:
		return nil, "", nil
	case errors.Is(err, schema.ErrNotFound):
		return nil, "not called: there is no signing key " + name, nil
	case errors.Is(err, schema.ErrNotUnderstood):
		return nil, "not called: what is stored of the tenant's signing keys cannot be understood", nil
	case errors.Is(err, bucketer.ErrSealed):
		x.log.Error("a signing key cannot be opened: calls that it is to sign fail", "tenant", tenant, "key", name, "err", err)
		return nil, "not called: the signing key " + name + " cannot be opened by this executor", nil
	}
	return nil, "", err
}

// values returns the values of the secrets of the tenant that a call needs. A call that lacks one
// is not made: a fault is for the record of its attempt. An error is the store's, and the message
// goes back.
func (x *Executor) values(ctx context.Context, tenant string, names []string) (v auth.Values, fault string, err error) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	v = make(auth.Values, len(names))
	for _, name := range names {
		err = schema.ErrNotFound
		if x.secrets != nil {
			v[name], err = x.secrets.Values(bounded, tenant, name)
		}
		switch {
		case err == nil:
		case errors.Is(err, schema.ErrNotFound):
			return nil, "not called: there is no secret " + name, nil
		case errors.Is(err, schema.ErrNotUnderstood):
			return nil, "not called: what is stored of the secret " + name + " cannot be understood", nil
		case errors.Is(err, bucketer.ErrSealed):
			x.log.Error("a secret cannot be opened: calls that need it fail", "tenant", tenant, "secret", name, "err", err)
			return nil, "not called: the secret " + name + " cannot be opened by this executor", nil
		default:
			return nil, "", err
		}
	}
	return v, "", nil
}
