package client

import (
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestWhoami(t *testing.T) {
	api := clitest.StartNode(t)
	who := clitest.Decode[httpapi.Whoami](t, clitest.Succeed(t, "whoami", "--api", api, "--tenant", "billing", "-o", "json").Stdout)
	if who.Tenant != "billing" || who.Actor != "anonymous" || who.Role != "admin" || who.Auth || !who.TenantsAll || who.Node == "" || who.Time.IsZero() {
		t.Errorf("whoami answers %+v, want that everybody may do everything here", who)
	}
	if shown := clitest.Succeed(t, "whoami", "--api", api).Stdout; !strings.Contains(shown, "anonymous") || !strings.Contains(shown, "default") {
		t.Errorf("whoami shows\n%s", shown)
	}
	if r := clitest.Run(t.Context(), "", "whoami", "x", "--api", api); r.Code != 2 {
		t.Errorf("whoami x exits %d with %q, want 2", r.Code, r.Stderr)
	}
}
