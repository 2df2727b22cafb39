package config

import (
	"errors"
	"strings"
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

	// ClientID is ours at the provider, for log-ins of browsers; empty: there are none.
	ClientID     string   `koanf:"client_id"`
	ClientSecret string   `koanf:"client_secret"`
	Scopes       []string `koanf:"scopes"`
}

// Tokens returns the provider as package tokens takes it. advertise is the base URL of the API.
func (o OIDC) Tokens(advertise string) (tokens.Config, error) {
	c := tokens.Config{
		Issuer: o.Issuer, Audience: o.Audience, NameClaim: o.NameClaim, Skew: o.Skew,
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Redirect: strings.TrimSuffix(advertise, "/") + "/login/callback",
	}
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
func (o OIDC) Validate(advertise string) error {
	if o.Issuer == "" {
		if o.Audience != "" || len(o.Grants) > 0 || o.ClientID != "" {
			return errors.New("api.oidc.issuer: is not set, and api.oidc.audience, grants or client_id is: no token would count")
		}
		return nil
	}
	c, err := o.Tokens(advertise)
	if o.ClientSecret != "" && o.ClientID == "" {
		err = errors.Join(err, errors.New("client_secret: is set, and client_id is not"))
	}
	if o.ClientID != "" && advertise == "" {
		err = errors.Join(err, errors.New("client_id: needs api.advertise: there browsers come back"))
	}
	if err = errors.Join(err, c.Validate()); err != nil {
		const key = "api.oidc: "
		return errors.New(key + strings.ReplaceAll(err.Error(), "\n", "\n"+key)) // one fault a line
	}
	return nil
}
