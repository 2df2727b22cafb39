package auth

import (
	"net/url"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestURLOfACall(t *testing.T) {
	of := func(texts ...string) Values { return Values{"s": valuesOf(texts...)} }
	for name, c := range map[string]struct {
		to          schema.HTTPTarget
		values      Values
		want, fault string
	}{
		"stated":             {schema.HTTPTarget{URL: "https://x.test/a"}, nil, "https://x.test/a", ""},
		"in a secret":        {schema.HTTPTarget{URLSecret: "s"}, of("https://x.test/" + secret), "https://x.test/" + secret, ""},
		"the newest of two":  {schema.HTTPTarget{URLSecret: "s"}, of("https://x.test/"+secret, "https://x.test/old"), "https://x.test/" + secret, ""},
		"a line of a file":   {schema.HTTPTarget{URLSecret: "s"}, of("https://x.test/" + secret + "\n"), "https://x.test/" + secret, ""},
		"missing":            {schema.HTTPTarget{URLSecret: "s"}, nil, "", "there is no secret s"},
		"no URL":             {schema.HTTPTarget{URLSecret: "s"}, of(secret), "", "the secret s is not an absolute http or https URL"},
		"with a line within": {schema.HTTPTarget{URLSecret: "s"}, of("https://x.test/\n" + secret), "", "the secret s is not an absolute http or https URL"},
		"of another scheme":  {schema.HTTPTarget{URLSecret: "s"}, of("ftp://x.test/" + secret), "", "the secret s is not an absolute http or https URL"},
		"with a password":    {schema.HTTPTarget{URLSecret: "s"}, of("https://u:" + secret + "@x.test/"), "", "the secret s is not an absolute http or https URL"},
		"mtls without TLS": {
			schema.HTTPTarget{URLSecret: "s", Auth: &schema.HTTPAuth{MTLS: &schema.MTLSAuth{}}}, of("http://x.test/" + secret), "", "the secret s is not an https URL",
		},
	} {
		got, err := URL(&c.to, c.values)
		wantFault(t, name, err, c.fault)
		if got != c.want {
			t.Errorf("%s: URL = %q, want %q", name, got, c.want)
		}
	}
}

func TestRedactorTakesURLsOut(t *testing.T) {
	u, err := url.Parse("https://x.test/services/T0/" + secret + "?sig=abcdefgh")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRedactor(Values{"other": valuesOf("another")})
	r.AddURL(u)
	for _, text := range []string{u.String(), "no route for " + u.Path, u.RequestURI(), "?sig=abcdefgh"} {
		if got := r.Text(text); strings.Contains(got, secret) || strings.Contains(got, "abcdefgh") {
			t.Errorf("Text(%q) = %q, which has the secret", text, got)
		}
	}
}
