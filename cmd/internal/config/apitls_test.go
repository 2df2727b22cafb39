package config

import (
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

func TestFaultsOfTheTLSOfTheAPIAreNamed(t *testing.T) {
	for _, row := range []struct{ name, tls, want string }{
		{"none", "", ""},
		{"a certificate", "cert: c, key: k", ""},
		{"clients", "cert: c, key: k, client_ca: a, client_auth: optional, clients: ['deploy=acme/operator', 'CN=x,O=Acme=system/admin']", ""},
		{"no key", "cert: c", "api.tls.cert: goes together"},
		{"clients without TLS", "client_ca: a", "api.tls.client_ca: is set"},
		{"clients that are not verified", "cert: c, key: k, clients: ['deploy=acme/operator']", "api.tls.clients: are named"},
		{"another word", "client_auth: maybe", `api.tls.client_auth: "maybe"`},
		{"no grant", "cert: c, key: k, client_ca: a, clients: [deploy]", `api.tls.clients: "deploy" is not a subject`},
		{"no role", "cert: c, key: k, client_ca: a, clients: ['deploy=acme/cook']", `"acme/cook" is not a tenant and a role`},
		{"twice", "cert: c, key: k, client_ca: a, clients: ['x=a/viewer', 'x=b/admin']", `"x" is there twice`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(write(t, good+"api: {tls: {"+row.tls+"}}\n"), nil, nil)
			if row.want == "" {
				if err != nil {
					t.Errorf("Load = %v, want no fault", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("Load = %+v, %v, want %q", c.API.TLS, err, row.want)
			}
		})
	}
	tls := APITLS{Clients: []string{"deploy=acme/operator", "CN=x,O=Acme=system/admin"}}
	who, err := tls.Identities()
	if err != nil || who["deploy"] != (admin.Identity{Tenant: "acme", Role: schema.Operator}) || who["CN=x,O=Acme"] != (admin.Identity{Tenant: "system", Role: schema.Admin}) {
		t.Errorf("Identities = %+v, %v, want both", who, err)
	}
}
