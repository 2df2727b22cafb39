package config

import (
	"strings"
	"testing"
)

func TestFaultsOfTheProviderOfTokensAreNamed(t *testing.T) {
	const whole = "issuer: 'https://login.test', audience: carillon, grants: ['groups=ops=acme/operator']"
	for _, row := range []struct{ name, api, want string }{
		{"none", "oidc: {}", ""},
		{"a whole one", "oidc: {" + whole + "}", ""},
		{"with log-ins", "advertise: 'https://c.test/', oidc: {" + whole + ", client_id: c, client_secret: hush}", ""},
		{"no issuer", "oidc: {audience: carillon}", "api.oidc.issuer: is not set"},
		{"no audience", "oidc: {issuer: 'https://login.test', grants: ['groups=ops=acme/operator']}", "there is no audience"},
		{"no grants", "oidc: {issuer: 'https://login.test', audience: carillon}", "there are no grants"},
		{"a grant that is none", "oidc: {issuer: 'https://login.test', audience: carillon, grants: [ops]}", `"ops" is not a claim`},
		{"plain text", "oidc: {issuer: 'http://login.test', audience: carillon, grants: ['groups=ops=acme/operator']}", "has no TLS"},
		{"log-ins that lead nowhere", "oidc: {" + whole + ", client_id: c}", "needs api.advertise"},
		{"log-ins in plain text", "advertise: 'http://c.test', oidc: {" + whole + ", client_id: c}", "cannot come back"},
		{"several faults", "oidc: {issuer: 'http://login.test', client_secret: hush}", "there are no grants"},
		{"a secret of nobody", "oidc: {" + whole + ", client_secret: hush}", "client_secret: is set"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(write(t, good+"api: {"+row.api+"}\n"), nil, nil)
			if row.want == "" {
				if err != nil {
					t.Errorf("Load = %v, want no fault", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("Load = %+v, %v, want %q", c.API.OIDC, err, row.want)
			}
			faults, _, _ := strings.Cut(err.Error(), "\nread were: ")
			for line := range strings.Lines(faults) {
				if !strings.Contains(line, "api.oidc") {
					t.Errorf("Load = %v, want the key in each line, also in %q", err, line)
				}
			}
		})
	}
}
