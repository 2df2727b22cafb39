// Package queuetest is the contract of package queue as a test suite. Every adapter runs it.
package queuetest
