// Package dashboards says what is on the dashboards of deploy/monitoring/dashboards, and makes
// their JSON with Grafana's SDK.
//
// A dashboard opens with its answer: a row of numbers, the first of which is a word, and beside
// them a text that says how to read them. The panels below are there to ask why.
//
// Expressions have short forms, so that no query forgets a variable:
//
//	{$}         of the nodes that are chosen:  {cluster=~"$cluster",job=~"$job",instance=~"$instance"}
//	{$,k="v"}   the same and another label
//	{#}         of recorded series, which are of a cluster:  {cluster=~"$cluster"}
//
// After a change: make dashboards.
package dashboards
