// Package console asks a node what an open page of the console asks it, as often as the page does: so
// ten of them stand for ten people who watch.
//
//	views.go    what each view asks, and how often
//	latest.go   the search for the latest runs, which the list of runs makes
//	console.go  an open page: its files, who asks, and the questions of its view, again and again
//	tally.go    what was asked, how long the answers took, and what failed
//
// What stands here repeats what the sources of the page say (bucketer/httpapi/console/ui/src: the
// intervals are in api/live.ts, what a view asks is in views/). A test in a browser,
// .ci/console/load_test.go, opens each view beside a Console, and fails unless both ask the same, as
// often.
//
// A Console has connections of its own, six at most and kept alive, and takes gzip, as browsers do. It
// draws nothing, and keeps no file of the page from one opening to the next. Where a node asks for
// keys, a page has a session as well; a Console has none: benches ask nodes that do not.
package console
