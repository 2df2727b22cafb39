package auth

import (
	"net/url"
	"strings"

	"carillon.dev/carillon/schema"
)

// URL returns the URL of a call: the one that it states, or the one that its secret holds, without
// space around it, such as the line end of a file. An error is a Fault.
func URL(t *schema.HTTPTarget, v Values) (string, error) {
	if t.URLSecret == "" {
		return t.URL, nil
	}
	value, err := v.newest(t.URLSecret)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(value))
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" || u.User != nil {
		return "", faultf("the secret %s is not an absolute http or https URL, without user and password", t.URLSecret)
	}
	if t.Auth != nil && t.Auth.MTLS != nil && u.Scheme != "https" {
		return "", faultf("the secret %s is not an https URL, which mtls needs", t.URLSecret)
	}
	return text, nil
}

// AddURL has a URL that is a secret taken out, and what a callee sees of it: path and query.
func (r *Redactor) AddURL(u *url.URL) {
	r.Add(u.String())
	r.Add(u.RequestURI())
	r.Add(u.EscapedPath())
	r.Add(u.Path)
	r.Add(u.RawQuery)
}
