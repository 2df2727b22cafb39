// Package console tests the page at /console/ in a real browser, Debian's Chromium, against the real
// program.
//
// # How a test speaks
//
// As a person would: it opens an address, looks for a button or a field by the name that a screen
// reader says, clicks, types, and waits until it sees a text. No test knows a class, an id or the
// form of the markup. What has no name for screen readers cannot be found, and that is a fault of
// the page.
//
//	p := browser.Page(t, server.Console())
//	p.Open("#/jobs")
//	p.Click("link", "New job")
//	p.Fill("Address", sink.URL+"/ok")
//	p.In("region", "Next runs").See("2027-03-28")
//
// # Invariants
//
//  1. Every page of a test fails it if there was a message on the console, an exception, a request to
//     another origin, a violation of the policy (CSP, Trusted Types), or a dialogue of the browser.
//     What a test provokes on purpose it names beforehand (Page.Expect).
//  2. Nothing waits for a span. What is waited for is a condition, with a generous limit.
//  3. Every page has cookies and storage of its own, and every server a folder and a port of its own.
//     So tests run beside each other.
//  4. What is started is stopped: the kernel ends servers and browsers if this program dies.
//
// # What is left out
//
// A machine without Chromium leaves everything out, loudly; with CI=true that is a failure. So does
// one without Java and Maven what needs a real Cassandra.
//
// # Files
//
//	browser.go, page.go    a browser; a page of it and how one goes to places
//	find.go, act.go        what is found, by role and name; what a person does with it
//	watch.go               what must not happen on a page
//	axe.go, keyboard.go    whether everybody can use a view
//	server.go, secured.go  the program; the same with keys, on a real Cassandra
//	sink.go, proxy.go      what jobs call; what stands between a browser and a node
//	witness.go             what the checker of the load tests says of a cluster
//	api.go, states.go      what the API is asked; the states of a server that views are shown in
//	views.go               the list of views
//	load_test.go           what load tests take for an open page asks what the page asks
package console
