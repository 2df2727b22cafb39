package console

import "testing"

// What a node of region us answers while region eu is lost, and somebody has begun to move home us.
const (
	regionsAnswer = `{"region":"us","homes":[
		{"name":"eu","region":"eu","epoch":1,"served":false,"lease_age_seconds":0.4,"message":"home eu is not served by region us: region eu serves it (epoch 1)"},
		{"name":"us","region":"us","epoch":1,"served":true,"lease_age_seconds":0.4}]}`
	standAnswer = `{"region":"us","as_of":"2026-11-27T12:00:30.000Z",
		"regions":[{"name":"eu","last_sign_at":"2026-11-27T11:59:48.000Z","node":"node-1","lag_seconds":42,"executors":3},
		{"name":"us","local":true,"last_sign_at":"2026-11-27T12:00:29.000Z","node":"node-2","lag_seconds":1,"executors":3}],
		"homes":[{"name":"eu","region":"eu","epoch":1,"served":false,"lease_age_seconds":0.4,"shards":32},
		{"name":"us","region":"us","epoch":1,"served":true,"lease_age_seconds":0.4,"shards":32,"since":"2026-11-20T12:00:00.000Z","by":"ann",
		"change":{"from":"us","to":"eu","epoch":1,"by":"ann","reason":"power works","phase":"comparing","began_at":"2026-11-27T12:00:00.000Z",
		"phase_since":"2026-11-27T12:00:06.000Z","updated_at":"2026-11-27T12:00:29.000Z","partitions":40,"of":160,"rows":900}}]}`
	failoverAnswer = `{"home":"eu","from":"eu","to":"us","epoch":2,"planned":true,"plan":{"last_sign_seconds":42,"lag_seconds":0,"lost_at_most_seconds":12,
		"executors":3,"announced_seconds":0,"drained_seconds":0,"begins_seconds":14,"unavailable_seconds":14,"refused":[],
		"backlog":{"settled":"2026-11-27T11:58:00.000Z","under_way":1284,"looked_at":9000,"due_meanwhile":40,"shards":32,"sampled":8}}}`
)

// A home is failed over from the cluster page: first the numbers, then why, and its name typed. How
// far a move of another home is stands on the page.
func TestTourRegions(t *testing.T) {
	t.Parallel()
	proxy := StartProxy(t, serve(t).URL, "")
	proxy.Answer("GET", "/v1/regions", regionsAnswer)
	proxy.Answer("GET", "/v1/admin/regions", standAnswer)
	proxy.Answer("POST", "/v1/admin/regions/eu/failover", failoverAnswer)
	p := openView(t, proxy.Console(), "#/cluster")
	p.SeeAny("ann moves home us from region us to region eu")
	p.In("table", "Regions, and how far this one is behind each").InRow("us, this one").See("node-2")
	p.Axe("the cluster with regions")
	p.In("table", "Homes, and which region serves each").InRow("not served here").Click("button", "Fail eu over…")
	dialogue := p.In("dialog", "")
	dialogue.Click("button", "Show what it costs")
	dialogue.See("≈ 1,284")
	p.Axe("what a fail-over costs")
	dialogue.Fill("Why", "eu has no power")
	dialogue.Fill("Type eu to confirm", "eu")
	dialogue.Click("button", "Fail it over to us")
	p.See("Home eu failed over to region us")
}
