package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"carillon.dev/carillon/schema"
)

// SwapSigningKeys implements schema.SigningKeyStore.
func (r Roles) SwapSigningKeys(ctx context.Context, tenant string, was int64, is schema.SigningKeys) error {
	err := is.Follows(was)
	d := Document{Kind: SigningKeys, Name: tenant, Revision: is.Revision}
	if err == nil {
		d.Text, err = json.Marshal(is)
	}
	if err == nil {
		err = r.rows.SwapDocument(ctx, was, d)
	}
	if err != nil {
		return fmt.Errorf("swap signing keys of %s: %w", tenant, err)
	}
	return nil
}

// SigningKeys implements schema.SigningKeyStore.
func (r Roles) SigningKeys(ctx context.Context, tenant string) (k schema.SigningKeys, err error) {
	d, err := r.rows.Document(ctx, SigningKeys, "", tenant)
	if err == nil {
		k, err = schema.Decode[schema.SigningKeys](d.Text, "signing keys")
		k.Revision = d.Revision
	}
	if errors.Is(err, schema.ErrNotUnderstood) {
		_ = r.damage.Found("signing_keys", tenant, err)
	}
	if err != nil {
		return schema.SigningKeys{}, fmt.Errorf("read signing keys of %s: %w", tenant, err)
	}
	return k, nil
}
