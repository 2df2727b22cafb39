// Package alerts says which alerts of deploy/monitoring/rules fire while something is broken, and
// whether these are the ones that deploy/monitoring/faults.yaml states.
//
// A real Prometheus scrapes the nodes and evaluates the rules. Rules look at minutes, hours and
// days, and a run takes minutes: so they are made faster, mechanically ([Faster]). Every window,
// offset and `for` is divided by one number; nothing else is changed. What a rule compares with
// stays: "due for 60 s" is 60 s.
//
//	table.go   what must fire, and what may ([Table])
//	rules.go   faster rules
//	watch.go   the Prometheus, and what has fired
//	judge.go   the verdict
package alerts
