package executor

import (
	"context"
	"errors"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// signing is by what an attempt's call is signed.
type signing struct {
	secrets [][]byte
	fault   string // why it cannot be signed, though it is to be
}

// prepare reads what the attempt runs with, and by what it is signed. Errors as of needs.
func (a *attempt) prepare(ctx context.Context) (work schema.Work, payload []byte, fault error, err error) {
	work, payload, fault, err = a.needs(ctx)
	if err != nil || fault != nil || work.HTTP == nil || a.x.signer == nil {
		return work, payload, fault, err
	}
	a.signing, err = a.x.signing(ctx, a.entry.Spec.Tenant, work.HTTP.SigningKey)
	return work, payload, nil, err
}

// signing finds out by what a call of the tenant is signed that names that key, or none. A call that is to be signed and cannot be is not made:
// an error is the store's, and the attempt is put off; a fault is for its record.
func (x *Executor) signing(ctx context.Context, tenant, name string) (signing, error) {
	stated := name != ""
	if !stated {
		name = schema.DefaultSigningKey
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	secrets, err := x.signer.Secrets(bounded, tenant, name)
	switch {
	case err == nil:
		return signing{secrets: secrets}, nil
	case errors.Is(err, schema.ErrNotFound) && !stated:
		return signing{}, nil
	case errors.Is(err, schema.ErrNotFound):
		return signing{fault: "not called: there is no signing key " + name}, nil
	case errors.Is(err, schema.ErrNotUnderstood):
		return signing{fault: "not called: what is stored of the tenant's signing keys cannot be understood"}, nil
	case errors.Is(err, bucketer.ErrSealed):
		x.log.Error("a signing key cannot be opened: calls that it is to sign fail", "tenant", tenant, "key", name, "err", err)
		return signing{fault: "not called: the signing key " + name + " cannot be opened by this executor"}, nil
	}
	return signing{}, err
}
