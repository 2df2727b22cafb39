package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/deploy/local/cluster"
)

// seenCluster is what the API says of the cluster.
type seenCluster struct {
	Members []struct {
		Name  string
		Ready bool
	}
	Shards []struct {
		Owner string
	}
}

// well reports whether all three members are ready, and every shard has an owner.
func (c *seenCluster) well() bool {
	for _, m := range c.Members {
		if !m.Ready {
			return false
		}
	}
	return len(c.Members) == 3 && c.owners()[""] == 0
}

func (c *seenCluster) owners() map[string]int {
	owners := map[string]int{}
	for _, s := range c.Shards {
		owners[s.Owner]++
	}
	return owners
}

// On a real cluster of three nodes one is killed and one frozen while the page is open. What the page
// says is what the API says, and what the checker of the load tests finds.
func TestClusterOfThree(t *testing.T) {
	need(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3, Program: path})
	address := c.APIs()[0]
	api, witness := Ask(t, address, "", ""), StartWitness(t)
	p := openView(t, address+"/console/", "#/cluster")
	agrees(t, p, api)
	p.Axe("the cluster, well")

	// Runs are due the whole time.
	const runs = 120
	begin := time.Now().Add(5 * time.Second).Truncate(time.Second)
	for i := range runs {
		witness.Ask(t, api, begin.Add(time.Duration(i)*500*time.Millisecond), "of", "cluster")
	}

	act := func(what string, do func(context.Context, string) error, name string) time.Time {
		t.Helper()
		if err := do(t.Context(), name); err != nil {
			t.Fatalf("%s %s: %v", what, name, err)
		}
		return time.Now()
	}
	witness.Killed()
	killed := act("kill", c.Kill, "carillon-3")
	isDown(p, "carillon-3")
	took := time.Since(killed)
	t.Logf("the page shows a killed node after %v", took.Round(100*time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("the page shows a killed node after %v, want 5 s", took)
	}
	api.awaitOwners(t, "carillon-1", "carillon-2")
	agrees(t, p, api)
	p.Axe("the cluster, a node killed")

	frozen := act("freeze", c.Freeze, "carillon-2")
	isDown(p, "carillon-2")
	t.Logf("the page shows a frozen node after %v", time.Since(frozen).Round(100*time.Millisecond))
	api.awaitOwners(t, "carillon-1")
	agrees(t, p, api)

	act("thaw", c.Thaw, "carillon-2")
	act("start", c.StartMember, "carillon-3")
	api.awaitOwners(t, "carillon-1", "carillon-2", "carillon-3")
	agrees(t, p, api)

	// The page itself was served by a node that dies: it says so, and is well when the node is back.
	p.Expect("net::ERR_")
	witness.Killed()
	act("kill", c.Kill, "carillon-1")
	p.See("The node cannot be reached")
	act("start", c.StartMember, "carillon-1")
	p.SeeNoMore("The node cannot be reached")
	agrees(t, p, api)

	// The checker finds each run called, and the page lists as many of each end.
	report := witness.Judge(t, c.APIs(), late, 2*time.Minute)
	if report.Done != runs {
		t.Errorf("the checker finds %d runs done, want %d", report.Done, runs)
	}
	first, end := begin.Add(-250*time.Millisecond), begin.Add(runs*500*time.Millisecond)
	succeeded := 0
	for from := first; from.Before(end); from = from.Add(20 * time.Second) {
		succeeded += listed(t, p, api, client.Succeeded, from, from.Add(20*time.Second))
	}
	if succeeded != report.Done-report.DoneFailed {
		t.Errorf("the page lists %d runs that succeeded, the checker counts %d", succeeded, report.Done-report.DoneFailed)
	}
	for state, n := range map[client.State]int{client.Failed: report.DoneFailed, client.Missed: report.Missed + report.MissedByPolicy} {
		if shown := listed(t, p, api, state, first, end); shown != n {
			t.Errorf("the page lists %d runs that are %s, the checker counts %d", shown, state, n)
		}
	}
}

// late is how late a run may start here: two nodes die and one is frozen, and what such a death costs is
// half a minute (DESIGN section 7).
const late = 90 * time.Second

// listed returns how many runs of a state the page lists that are due between two instants, which the
// API must list as well. It is for less than a page of them.
func listed(t *testing.T, p *Page, api *API, state client.State, from, to time.Time) int {
	t.Helper()
	n := 0
	for _, err := range api.Runs.List(t.Context(), client.RunQuery{From: from, To: to, State: state, Labels: map[string]string{"of": "cluster"}}) {
		orFail(t, err)
		n++
	}
	p.Open(fmt.Sprintf("#/runs?label=of%%3Dcluster&state=%s&from=%s&to=%s", state, stamp(from), stamp(to)))
	if n == 0 {
		p.See("No run matches")
		return 0
	}
	p.until(fmt.Sprintf("the page lists the %d runs of the API", n), func() (bool, string) {
		rows := p.In("table", "Runs that match").Count("row", "") - 1 // that of the headings
		return rows == n, fmt.Sprint(rows)
	})
	return n
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// member returns the row of a node in the table of members.
func member(p *Page, name string) Place { return p.In("table", "Members of the cluster").InRow(name) }

// isDown waits until the page shows that a node is away: in its row, and in the sentence above all.
func isDown(p *Page, name string) {
	p.t.Helper()
	p.until("the page shows that "+name+" is away", func() (bool, string) {
		text := member(p, name).Text()
		for _, words := range []string{"has left", "does not answer", "not ready"} {
			if strings.Contains(text, words) {
				return true, ""
			}
		}
		return false, text
	})
	p.See("Something is wrong.")
}

// agrees waits until the page names the members that the API names, says of each what the API says, and
// shows as many shards of each as the API says.
func agrees(t *testing.T, p *Page, api *API) {
	t.Helper()
	p.until("the page agrees with the API", func() (bool, string) {
		var is seenCluster
		if err := api.try("GET", "/v1/cluster", nil, &is); err != nil {
			return false, err.Error()
		}
		owned := is.owners()
		for _, m := range is.Members {
			row := member(p, m.Name).Text()
			ready := strings.Contains(row, "ready") && !strings.Contains(row, "not ready")
			if ready != m.Ready {
				return false, fmt.Sprintf("the API says of %s ready: %v; the page says %q", m.Name, m.Ready, row)
			}
			if n := owned[m.Name]; n > 0 && !slices.Contains(strings.Fields(row), fmt.Sprint(n)) {
				return false, fmt.Sprintf("the API says that %s owns %d shards; the page says %q", m.Name, n, row)
			}
		}
		if well := p.Reads("The cluster is well"); well != is.well() {
			return false, fmt.Sprintf("the API says that all is well: %v; the page says %s", is.well(), cut(p.Text()))
		}
		return true, ""
	})
}

// awaitOwners waits until the shards are of these nodes, and of each of them.
func (a *API) awaitOwners(t *testing.T, names ...string) {
	t.Helper()
	there, ok := await(2*time.Minute, func() (bool, string) {
		var is seenCluster
		if err := a.try("GET", "/v1/cluster", nil, &is); err != nil {
			return false, err.Error()
		}
		owners := is.owners()
		for _, name := range names {
			if owners[name] == 0 {
				return false, fmt.Sprint(owners)
			}
		}
		return len(owners) == len(names), fmt.Sprint(owners)
	})
	if !ok {
		t.Fatalf("the shards are of %s, want %v", there, names)
	}
}
