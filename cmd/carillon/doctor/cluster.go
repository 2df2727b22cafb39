package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
)

// NodeFacts is what one node said.
type NodeFacts struct {
	Base    string // its address
	Name    string // empty: not known
	Err     error  // why GET /v1/cluster was not answered
	Cluster httpapi.Cluster
	Regions httpapi.Regions
	RegErr  error
	Metrics []byte // as /metrics answers; nil: not read
	MetErr  error
}

// What a node says is compared with this.
const (
	farBehind = 5 * time.Minute  // a shard: runbook CarillonShardBehind
	oldLease  = 10 * time.Second // of a region on a home
)

// judgeNodes judges what the nodes said, the first of which was asked for the others.
func judgeNodes(f *Facts) (fs findings) {
	var seen []*NodeFacts
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Err == nil {
			seen = append(seen, n)
			continue
		}
		judgeSilence(f, n, i == 0, &fs)
	}
	if len(seen) == 0 {
		return fs
	}
	first := seen[0]
	judgeMembers(f, &first.Cluster, &fs)
	judgeLost(seen, &fs)
	judgeTargets(seen, &fs)
	judgeViews(seen, &fs)
	judgeShards(&first.Cluster, &fs)
	judgeServers(&first.Cluster, &fs)
	judgeHomes(seen, &fs)
	for _, n := range seen {
		judgeMetrics(n, &fs)
	}
	return fs
}

// judgeSilence says why a node did not answer. first: it is the one that was to name the others.
func judgeSilence(f *Facts, n *NodeFacts, first bool, fs *findings) {
	var p *httpapi.Problem
	what := fmt.Sprintf("%s: %s", cmp.Or(n.Name, n.Base), oneLine(n.Err))
	switch {
	case errors.As(n.Err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden):
		do := "set CARILLON_KEY to a key of the tenant system; carillon key create admin --bootstrap --config FILE makes one"
		if !first && f.Key {
			do = "name it in --api: a key is sent to addresses that the ring names only if ring.key keeps strangers out of it"
		}
		fs.add(Warning, "nodes.key", what, "what this node says was not looked at", do)
	case first:
		fs.add(Error, "nodes.reachable", what, "the API does not answer, and other nodes are not known", "see its log (it says what it waits for), or name another with --api")
	default:
		fs.add(Warning, "nodes.reachable", what, "it may be well, and not reached from here", "see api.advertise, or run this where nodes reach one another")
	}
}

// judgeMembers judges readiness, roles and versions.
func judgeMembers(f *Facts, c *httpapi.Cluster, fs *findings) {
	versions, roles := make(map[string][]string), make(map[string]int)
	ready := 0
	for i := range c.Members { // an unhealthy one has laid its role down
		if m := &c.Members[i]; m.Unhealthy && !slices.Contains(m.Roles, config.Dispatcher) {
			roles[config.Dispatcher]++
		}
	}
	healthy := slices.ContainsFunc(c.Members, func(m httpapi.Member) bool {
		return !m.Unhealthy && slices.Contains(m.Roles, config.Dispatcher)
	})
	for i := range c.Members {
		m := &c.Members[i]
		unhealthy := m.Name + " dispatches nothing"
		versions[m.Version] = append(versions[m.Version], m.Name)
		for _, r := range m.Roles {
			roles[r]++
		}
		if m.Ready {
			ready++
		}
		for _, check := range m.Checks {
			message := strings.Join(strings.Fields(check.Message), " ")
			what := fmt.Sprintf("%s: %s: %s", m.Name, check.Name, message)
			switch {
			case m.Unhealthy && check.OK && check.Name == config.Dispatcher:
				unhealthy += ": " + message
			case !check.OK && check.Name == "answer" && !c.Queue.OK: // it is asked by NATS
				fs.add(Info, "nodes.ready", what, "", "")
			case !check.OK && check.Name == "answer":
				fs.add(Error, "nodes.ready", what, "it does nothing as far as others know", "see its process and its log; runbook CarillonMemberDead")
			case !check.OK:
				fs.add(Error, "nodes.ready", what, "it takes nothing in", "see /readyz and its log")
			case strings.HasPrefix(check.Message, "unchecked"): // all servers are on its machine
				fs.add(Info, "nodes.ready", what, "", "")
			case check.Message != "":
				fs.add(Warning, "nodes.ready", what, "", "see deploy/carillon.yaml")
			}
		}
		if m.Unhealthy {
			means := "others have its shards"
			if !healthy {
				means = "no dispatcher is healthy, so each keeps its shards and tries: nothing that is due starts until then"
			}
			fs.add(Error, "nodes.unhealthy", unhealthy, means, "see how it reaches Cassandra and NATS; runbook CarillonDispatcherUnhealthy")
		}
		if s := m.Slots; s != nil && s.Total > 0 && s.Used >= s.Total && s.Waiting > 0 {
			fs.add(Warning, "nodes.slots", fmt.Sprintf("%s: all %d slots are busy, %d attempts wait", m.Name, s.Total, s.Waiting), "runs start late if it lasts", "more executors, or more executor.slots; runbook CarillonSlotsFull")
		}
	}
	if ready == len(c.Members) {
		fs.ok("nodes.ready", "all %d members are ready", ready)
	}
	for _, role := range []string{config.Bucketer, config.Dispatcher, config.ExecutorR} {
		if roles[role] == 0 {
			fs.add(Error, "nodes.roles", "no member has the role "+role, "jobs are not "+map[string]string{config.Bucketer: "taken in", config.Dispatcher: "dispatched", config.ExecutorR: "run"}[role], "start a node with it")
		}
	}
	if len(c.Members) == 1 {
		fs.add(Info, "nodes.alone", c.Members[0].Name+" is the only member", "while it is away nothing starts", "")
	}
	names := slices.Sorted(maps.Keys(versions))
	switch {
	case len(names) > 1:
		var parts []string
		for _, v := range names {
			parts = append(parts, fmt.Sprintf("%s (%s)", cmp.Or(v, "unknown"), strings.Join(versions[v], ", ")))
		}
		fs.add(Warning, "nodes.versions", "members run different versions: "+strings.Join(parts, "; "), "only two versions that follow each other may run beside each other, and not for long", "finish the upgrade; runbook CarillonVersionSkew")
	case len(names) == 1 && names[0] != f.Version:
		fs.add(Info, "nodes.versions", fmt.Sprintf("members run version %s, this program is %s", names[0], f.Version), "what it says of the keyspace is for its own version", "")
	case len(names) == 1:
		fs.ok("nodes.versions", "all run %s", names[0])
	}
}

// judgeLost judges members that went without a word, as any of the nodes saw it. One that another
// node sees among the members is not lost: they do not agree (judgeViews).
func judgeLost(seen []*NodeFacts, fs *findings) {
	since, there := make(map[string]time.Time), make(map[string]bool)
	for _, n := range seen {
		for i := range n.Cluster.Members {
			there[n.Cluster.Members[i].Name] = true
		}
		for _, l := range n.Cluster.Lost {
			if at, known := since[l.Name]; !known || l.Since.Before(at) {
				since[l.Name] = l.Since.Time
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(since)) {
		if !there[name] {
			fs.add(Warning, "nodes.lost", fmt.Sprintf("%s went without a word at %s and is not back", name, since[name].UTC().Format(time.RFC3339)),
				"others have its shards; there is less room", "see its process, its log and its machine, and start it; runbook CarillonMemberDead. If another node has taken its place, this is told for a day")
		}
	}
}

// judgeTargets judges the circuits of targets, and what waits for them.
func judgeTargets(seen []*NodeFacts, fs *findings) {
	var broken []string
	read := false
	for _, n := range seen {
		v, ok := gauge(n.Metrics, "carillon_executor_targets_broken")
		read = read || ok
		if ok && v > 0 {
			broken = append(broken, fmt.Sprintf("%s (%.0f)", n.Cluster.Node, v))
		}
	}
	runs, names := int64(0), make(map[string]bool)
	var oldest time.Time
	for i := range seen[0].Cluster.Members {
		for _, w := range seen[0].Cluster.Members[i].Waiting {
			if w.Reason != "breaker" {
				continue
			}
			if runs += w.Runs; oldest.IsZero() || w.Oldest.Before(oldest) {
				oldest = w.Oldest.Time
			}
			if name := strings.TrimSpace(w.Tenant + " " + cmp.Or(w.Task, w.Job)); name != "" {
				names[name] = true
			}
		}
	}
	if len(broken) == 0 && runs == 0 {
		if read {
			fs.ok("targets.broken", "no target fails again and again")
		}
		return
	}
	what := "targets fail again and again"
	if len(broken) > 0 {
		what += ", as these see it: " + some(broken)
	}
	if runs > 0 {
		what += fmt.Sprintf("; %d runs wait for them, the oldest since %s", runs, oldest.UTC().Format(time.RFC3339))
	}
	if len(names) > 0 {
		what += ", of (tenant, task): " + some(slices.Sorted(maps.Keys(names)))
	}
	fs.add(Warning, "targets.broken", what, "runs for them are deferred: they start late",
		"carillon target list --state open, as the tenant, names them with their last error; runbook CarillonTargetsBroken")
}

// judgeViews compares who the members are as each node sees it.
func judgeViews(seen []*NodeFacts, fs *findings) {
	views := make(map[string][]string)
	for _, n := range seen {
		var names []string
		for i := range n.Cluster.Members {
			names = append(names, n.Cluster.Members[i].Name)
		}
		slices.Sort(names)
		view := strings.Join(names, ", ")
		views[view] = append(views[view], n.Cluster.Node)
	}
	switch {
	case len(views) > 1:
		var parts []string
		for _, view := range slices.Sorted(maps.Keys(views)) {
			parts = append(parts, fmt.Sprintf("%s see %s", strings.Join(views[view], ", "), view))
		}
		fs.add(Error, "nodes.ring", "nodes do not agree who the members are: "+strings.Join(parts, "; "),
			"both sides dispatch all shards: no run is lost, some start twice and both sides do double work", "see that ring.listen is reached by UDP and TCP in both directions, and that ring.key and ring.seeds are alike; for some seconds after a node came or went it is harmless; runbook CarillonRingSplit")
	case len(seen) > 1:
		fs.ok("nodes.ring", "%d nodes see the same members", len(seen))
	}
}

// judgeShards judges owners and how far shards have come.
func judgeShards(c *httpapi.Cluster, fs *findings) {
	members := make(map[string]bool)
	for i := range c.Members {
		members[c.Members[i].Name] = true
	}
	var unowned, behind []string
	for i := range c.Shards {
		s := &c.Shards[i]
		if s.Owner == "" || !members[s.Owner] {
			unowned = append(unowned, fmt.Sprint(s.Shard))
		}
		if s.BehindSeconds > farBehind.Seconds() {
			behind = append(behind, fmt.Sprintf("%d (%v)", s.Shard, time.Duration(s.BehindSeconds*float64(time.Second)).Round(time.Second)))
		}
	}
	if len(c.Shards) == 0 {
		fs.add(Warning, "nodes.shards", "no shards are told", "the store does not answer the node that was asked", "see cassandra.reachable")
		return
	}
	if len(unowned) > 0 {
		fs.add(Error, "nodes.shards", fmt.Sprintf("%d of %d shards have no owner: %s", len(unowned), len(c.Shards), some(unowned)), "what is due there does not start", "start a node with the role dispatcher; runbook CarillonShardsUnowned")
	}
	if len(behind) > 0 {
		fs.add(Error, "nodes.behind", fmt.Sprintf("%d of %d shards are behind: %s", len(behind), len(c.Shards), some(behind)), "runs start late there", "runbook CarillonShardBehind")
	}
	if len(unowned)+len(behind) == 0 {
		fs.ok("nodes.shards", "all %d shards have an owner, none is behind by more than %v", len(c.Shards), farBehind)
	}
}

// some returns the first of a list, and how many more there are.
func some(list []string) string {
	const shown = 10
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
}

// judgeServers judges Cassandra and NATS as the node reaches them.
func judgeServers(c *httpapi.Cluster, fs *findings) {
	for _, part := range []struct {
		name   string
		health *httpapi.ClusterHealth
	}{{"Cassandra", &c.Store}, {"NATS", &c.Queue.ClusterHealth}} {
		if !part.health.OK {
			fs.add(Error, "nodes.servers", fmt.Sprintf("%s does not reach %s: %s", c.Node, part.name, part.health.Message), "it takes nothing in and dispatches nothing", "see the network between them, and the server")
		}
		for _, h := range part.health.Hosts {
			if !h.Up {
				fs.add(Warning, "nodes.servers", fmt.Sprintf("%s of %s does not answer %s: %s", h.Name, part.name, c.Node, h.Message), "", "see that server, and the network to it")
			}
		}
	}
}

// judgeHomes judges who serves the homes of shards.
func judgeHomes(seen []*NodeFacts, fs *findings) {
	type lease struct {
		region string
		epoch  int64
	}
	known := make(map[string]map[lease][]string)
	for _, n := range seen {
		if n.RegErr != nil {
			fs.add(Warning, "regions.homes", fmt.Sprintf("%s: %s", n.Cluster.Node, oneLine(n.RegErr)), "what it knows of regions was not looked at", "")
		}
		for i := range n.Regions.Homes {
			h := &n.Regions.Homes[i]
			if h.Region == "" || h.LeaseAge == nil || *h.LeaseAge > oldLease.Seconds() {
				fs.add(Error, "regions.homes", fmt.Sprintf("%s does not know who serves home %s: %s", n.Cluster.Node, h.Name, h.Message), "it takes in and starts nothing of that home",
					"see that a majority of the copies of the keyspace of regions answers: carillon region list --config FILE; deploy/REGIONS.md")
				continue
			}
			if known[h.Name] == nil {
				known[h.Name] = make(map[lease][]string)
			}
			l := lease{h.Region, h.Epoch}
			known[h.Name][l] = append(known[h.Name][l], n.Cluster.Node)
		}
	}
	for _, home := range slices.Sorted(maps.Keys(known)) {
		if len(known[home]) == 1 {
			for l := range known[home] {
				fs.ok("regions.homes", "region %s serves home %s, epoch %d", l.region, home, l.epoch)
			}
			continue
		}
		fs.add(Warning, "regions.homes", fmt.Sprintf("nodes do not agree who serves home %s: %v", home, known[home]), "for some seconds after a move that is so", "look again in 15 s; carillon region log "+home+" --config FILE")
	}
}

// judgeMetrics judges what only metrics tell.
func judgeMetrics(n *NodeFacts, fs *findings) {
	name := n.Cluster.Node
	if n.MetErr != nil {
		fs.add(Info, "nodes.metrics", fmt.Sprintf("%s: %s", name, oneLine(n.MetErr)), "what only metrics tell was not looked at", "")
		return
	}
	for _, rule := range []struct {
		metric string
		bad    float64
		sev    Severity
		what   string
		means  string
		do     string
	}{
		{"carillon_executor_noop", 1, Error, "executor.noop is set", "its runs succeed and nothing is called", "take it out; runbook CarillonNoop"},
		{"carillon_config_restart_needed", 1, Warning, "keys of its configuration have changed that need a restart", "it runs with those before", "its log names them; restart it; runbook CarillonRestartNeeded"},
		{"carillon_config_reload_ok", 0, Warning, "its configuration has a fault", "that before stays in force; it would not start again", "its log says which; runbook CarillonConfigFaulty"},
	} {
		if v, ok := gauge(n.Metrics, rule.metric); ok && v == rule.bad {
			fs.add(rule.sev, "nodes.config", name+": "+rule.what, rule.means, rule.do)
		}
	}
}
