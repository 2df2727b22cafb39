package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"carillon.dev/carillon/bucketer/request"
)

// Whoami returns who asks, as a node knows it, and how that node stands.
func (c *Client) Whoami(ctx context.Context) (Whoami, error) {
	var out Whoami
	_, err := c.call(ctx, ask{method: http.MethodGet, path: whoamiPath, repeatable: true}, &out)
	return out, err
}

// LogIn makes a session of a key, as a browser does, and returns its cookie. The client itself needs
// none: it has ClientConfig.Key.
func (c *Client) LogIn(ctx context.Context, key string) (*http.Cookie, error) {
	header, err := c.call(ctx, ask{method: http.MethodPost, path: sessionPath, body: request.SessionRequest{Key: key}, repeatable: true}, nil)
	if err != nil {
		return nil, err
	}
	cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
	if err != nil {
		return nil, fmt.Errorf("read the cookie of the session: %w", err)
	}
	return cookie, nil
}

// LogOut has a browser remove the cookie of its session: what the answer says to it. The key stays
// good.
func (c *Client) LogOut(ctx context.Context) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: sessionPath, repeatable: true}, nil)
	return err
}
