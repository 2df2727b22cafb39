package console

import (
	"context"
	"fmt"
	"net/http"
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
		Name      string
		Unhealthy bool
		Ready     *bool
	}
	Shards []struct {
		Shard int
		Owner string
	}
}

func (c *seenCluster) names() []string {
	var names []string
	for _, m := range c.Members {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

func (c *seenCluster) owners() map[string]int {
	owners := map[string]int{}
	for _, s := range c.Shards {
		owners[s.Owner]++
	}
	return owners
}

// On a real cluster of three nodes one is killed and one frozen while the page is open. What the page
// says is what the API says, and every run is called though the page was watched.
func TestClusterOfThree(t *testing.T) {
	need(t)
	if testing.Short() {
		t.Skip("a cluster takes a minute")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3, Program: path})
	first := c.APIs()[0]
	if resp, err := http.Get(first + "/console/"); err != nil || resp.StatusCode != http.StatusOK {
		unbuilt(t, "the page at /console/")
	}
	api, sink := Ask(t, first, "", ""), StartSink(t)
	p := openView(t, first+"/console/", "#/cluster")
	for _, name := range []string{"carillon-1", "carillon-2", "carillon-3"} {
		p.See(name)
	}
	agrees(t, p, api)
	p.Axe("the cluster, well")

	// Runs are due the whole time.
	const runs = 120
	begin := time.Now().Add(5 * time.Second)
	for i := range runs {
		at := begin.Add(time.Duration(i) * 500 * time.Millisecond)
		_, err := api.Jobs.Create(t.Context(), client.NewJob(client.HTTP(fmt.Sprintf("%s/ok/%d", sink.URL, i))).At(at).Label("of", "cluster"))
		must(t, true, err)
	}

	act := func(what string, do func(context.Context, string) error, name string) time.Time {
		t.Helper()
		if err := do(t.Context(), name); err != nil {
			t.Fatalf("%s %s: %v", what, name, err)
		}
		return time.Now()
	}
	killed := act("kill", c.Kill, "carillon-3")
	isDown(p, "carillon-3")
	t.Logf("the page shows a killed node after %v", time.Since(killed).Round(100*time.Millisecond))
	if took := time.Since(killed); took > 8*time.Second { // 5 s, and a busy machine
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
	isUpAgain(p, "carillon-2")
	isUpAgain(p, "carillon-3")
	agrees(t, p, api)

	// The page itself was served by a node that dies: it says so, and is well when the node is back.
	p.Expect("net::ERR_")
	act("kill", c.Kill, "carillon-1")
	p.See("The node cannot be reached")
	act("start", c.StartMember, "carillon-1")
	p.SeeNoMore("The node cannot be reached")
	agrees(t, p, api)

	// Every run was called, says who was called; and so say the API and the page.
	there, ok := await(2*time.Minute, func() (bool, string) {
		missing := 0
		for i := range runs {
			if len(sink.Calls(fmt.Sprintf("/ok/%d", i))) == 0 {
				missing++
			}
		}
		return missing == 0, fmt.Sprintf("%d of %d", missing, runs)
	})
	if !ok {
		t.Errorf("%s runs were never called", there)
	}
	states := map[client.State]int{}
	for run, err := range api.Runs.List(t.Context(), client.RunQuery{From: begin.Add(-time.Second), To: begin.Add(runs * time.Second)}) {
		must(t, true, err)
		states[run.State]++
	}
	if states[client.Succeeded] != runs {
		t.Errorf("the API says %v of %d runs", states, runs)
	}
	p.Open("#/runs?state=failed&state=missed&last=1h")
	p.See("No run matches")
}

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

// isUpAgain waits until the page shows that a node is well.
func isUpAgain(p *Page, name string) {
	p.t.Helper()
	p.until("the page shows that "+name+" is well", func() (bool, string) {
		text := member(p, name).Text()
		return strings.Contains(text, "ready") && !strings.Contains(text, "not ready"), text
	})
}

// agrees waits until the page names the members that the API names, and shows as many shards of each
// as the API says.
func agrees(t *testing.T, p *Page, api *API) {
	t.Helper()
	p.until("the page agrees with the API", func() (bool, string) {
		var is seenCluster
		if err := api.try("GET", "/v1/cluster", nil, &is); err != nil {
			return false, err.Error()
		}
		text := p.Text()
		for _, name := range is.names() {
			if !strings.Contains(text, name) {
				return false, "no " + name + " on the page"
			}
		}
		for owner, n := range is.owners() {
			if owner == "" {
				continue
			}
			row := member(p, owner).Text()
			if !slices.Contains(strings.Fields(row), fmt.Sprint(n)) {
				return false, fmt.Sprintf("the API says that %s owns %d shards; the page says %q", owner, n, row)
			}
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
