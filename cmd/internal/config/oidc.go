package config

import (
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/cmd/internal/tokens"
)

// OIDC is the OpenID Connect provider whose tokens the API takes.
type OIDC struct {
	Issuer    string        `koanf:"issuer"` // URL; empty: there is none
	Audience  string        `koanf:"audience"`
	NameClaim string        `koanf:"name_claim"`
	Grants    []string      `koanf:"grants"` // "claim=value=tenant/role"
	Skew      time.Duration `koanf:"skew"`
}

// Tokens returns the provider as package tokens takes it.
func (o OIDC) Tokens() (tokens.Config, error) {
	c := tokens.Config{Issuer: o.Issuer, Audience: o.Audience, NameClaim: o.NameClaim, Skew: o.Skew}
	var faults []error
	for _, text := range o.Grants {
		g, err := tokens.ParseGrant(text)
		if err != nil {
			faults = append(faults, err)
		}
		c.Grants = append(c.Grants, g)
	}
	return c, errors.Join(faults...)
}

// Validate reports every fault of the keys.
func (o OIDC) Validate() error {
	if o.Issuer == "" {
		if o.Audience != "" || len(o.Grants) > 0 {
			return errors.New("api.oidc.issuer: is not set, and api.oidc.audience or api.oidc.grants is: no token would count")
		}
		return nil
	}
	c, err := o.Tokens()
	if err = errors.Join(err, c.Validate()); err != nil {
		return fmt.Errorf("api.oidc: %w", err)
	}
	return nil
}
