package client

import (
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

func TestTenantsAreSetAndShown(t *testing.T) {
	api := clitest.StartNode(t)
	if got := clitest.Decode[[]httpapi.Tenant](t, clitest.Succeed(t, "tenant", "list", "--api", api, "-o", "json").Stdout); got == nil || len(got) != 0 {
		t.Errorf("tenant list of a new cluster = %+v, want []", got)
	}
	fresh := clitest.Decode[httpapi.Tenant](t, clitest.Succeed(t, "tenant", "get", "billing", "--api", api, "-o", "json").Stdout)
	if fresh.Name != "billing" || fresh.Weight != 1 || fresh.Quotas != (schema.Quotas{}) {
		t.Errorf("tenant get of one of which nothing was stated = %+v, want the defaults", fresh)
	}
	clitest.Succeed(t, "tenant", "set", "billing", "--api", api, "--weight", "3", "--runs-per-minute", "6000", "--payload-bytes-per-minute", "1099511627776")
	set := clitest.Decode[httpapi.Tenant](t, clitest.Succeed(t, "tenant", "set", "billing", "--api", api, "--jobs", "7", "--runs-per-minute", "0", "--concurrency", "9", "-o", "json").Stdout)
	if want := (schema.Quotas{Jobs: 7, Concurrency: 9, PayloadBytesPerMinute: 1 << 40}); set.Weight != 3 || set.Quotas != want {
		t.Errorf("tenant set = weight %d, %+v; want weight 3 as before, and %+v", set.Weight, set.Quotas, want)
	}
	clitest.Succeed(t, "tenant", "set", "audit", "--api", api, "--import-lines-per-second", "5")
	shown := strings.Split(strings.TrimSpace(clitest.Succeed(t, "tenant", "list", "--api", api).Stdout), "\n")
	for i, want := range []string{"NAME WEIGHT JOBS RUNS/MIN AT ONCE IMPORT LINES/S PAYLOAD BYTES/MIN RETENTION ENCRYPTED UPDATED", "audit 1 - - - 5 - - - ", "billing 3 7 - 9 - 1099511627776 - - "} {
		if len(shown) != 3 || !strings.HasPrefix(strings.Join(strings.Fields(shown[i]), " "), want) {
			t.Fatalf("tenant list shows\n%s\nwant line %d to begin with %q", strings.Join(shown, "\n"), i, want)
		}
	}
	clitest.Succeed(t, "tenant", "set", "billing", "--api", api, "--retention", "3")
	kept := clitest.Decode[httpapi.Tenant](t, clitest.Succeed(t, "tenant", "set", "billing", "--api", api, "--weight", "3", "-o", "json").Stdout)
	if list := clitest.Succeed(t, "tenant", "list", "--api", api).Stdout; kept.Retention != 3 || !strings.Contains(list, " 3d ") {
		t.Errorf("a retention of 3 days, after the weight was stated again: %d, listed\n%s", kept.Retention, list)
	}
	if r := clitest.Run(t.Context(), "", "tenant", "set", "billing", "--api", api, "--retention", "8"); r.Code != 1 || !strings.Contains(r.Stderr, "body.retention") {
		t.Errorf("a retention beyond the cluster's exits %d with %q, want 1 and the fault", r.Code, r.Stderr)
	}
	if none := clitest.Decode[httpapi.Tenant](t, clitest.Succeed(t, "tenant", "set", "billing", "--api", api, "--retention", "0", "-o", "json").Stdout); none.Retention != 0 {
		t.Errorf("a retention that was taken back is %d days, want none", none.Retention)
	}
	if one := clitest.Succeed(t, "tenant", "get", "billing", "--api", api).Stdout; !strings.Contains(one, "1099511627776") {
		t.Errorf("tenant get shows\n%s", one)
	}
	if got := clitest.Succeed(t, "__complete", "tenant", "set", "--api", api, "bil").Stdout; !strings.Contains(got, "billing\tweight 3") || strings.Contains(got, "audit") {
		t.Errorf("completion of tenant set bil = %q, want billing alone", got)
	}
	refused := clitest.Run(t.Context(), "", "tenant", "set", "Billing", "--api", api, "--weight", "1")
	if refused.Code != 1 || !strings.Contains(refused.Stderr, "path.name") {
		t.Errorf("tenant set of a name that is none exits %d with %q, want 1 and the fault", refused.Code, refused.Stderr)
	}
	over := clitest.Run(t.Context(), "", "tenant", "set", "billing", "--api", api, "--weight", "1001", "--jobs", "-1")
	if over.Code != 1 || !strings.Contains(over.Stderr, "body.weight") || !strings.Contains(over.Stderr, "body.quotas.jobs") {
		t.Errorf("tenant set beyond what may be exits %d with %q, want 1 and both faults", over.Code, over.Stderr)
	}
	for _, args := range []string{
		"tenant set billing", "tenant set", "tenant get", "tenant list x", "tenant set billing --weight 0", "tenant set billing --weight x", "tenant get billing -o xml",
	} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}
