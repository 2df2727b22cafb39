package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"carillon.dev/carillon/bucketer/admin"
)

// LogsIn reports whether browsers can log in.
func (p *Provider) LogsIn() bool { return p.cfg.ClientID != "" }

// client returns what asks the provider for tokens.
func (p *Provider) client(ctx context.Context) (*oauth2.Config, error) {
	provider, err := p.provider(ctx)
	if err != nil {
		return nil, err
	}
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: p.cfg.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}, nil
}

// LogInURL returns where a browser is sent to log in.
func (p *Provider) LogInURL(ctx context.Context, state, nonce, verifier string) (string, error) {
	c, err := p.client(ctx)
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// LoggedIn returns who has logged in, by the code with which the browser came back.
func (p *Provider) LoggedIn(ctx context.Context, code, nonce, verifier string) (admin.Identity, error) {
	c, err := p.client(ctx)
	if err != nil {
		return admin.Identity{}, err
	}
	bounded, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), askTimeout)
	defer cancel()
	answer, err := c.Exchange(bounded, code, oauth2.VerifierOption(verifier))
	var refusal *oauth2.RetrieveError
	switch {
	case errors.As(err, &refusal) && refusal.Response != nil && refusal.Response.StatusCode < 500:
		return admin.Identity{}, refused("was not given: the provider does not know the code of the log-in")
	case err != nil:
		return admin.Identity{}, fmt.Errorf("%w: exchange of a code", admin.ErrProvider) // err may have the code
	}
	id, _ := answer.Extra("id_token").(string)
	claims, err := p.verify(ctx, id, p.cfg.ClientID)
	if err != nil {
		return admin.Identity{}, err
	}
	if held, _ := claims["nonce"].(string); subtle.ConstantTimeCompare([]byte(held), []byte(nonce)) != 1 {
		return admin.Identity{}, refused("is of another log-in")
	}
	return p.identity(claims)
}
