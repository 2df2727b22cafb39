// Package tokens finds out who calls by the tokens of an OpenID Connect provider.
//
// A token is a JWT that the provider has signed. Its claims say who it is for, until when, and what
// the operator's grants are held against: the first grant that fits says tenant and role.
//
// # Invariants
//
//  1. Nothing that a token says counts before its signature was verified by a key of the provider.
//  2. A provider that does not answer is asked again after some seconds at the soonest, and so is
//     one that does not know the key of a token: nobody can have it asked more often.
//  3. Keys that are known go on being good while the provider does not answer. Those that it has
//     given up are good for an hour at most while it does.
//  4. No error and no log has a token, or what a token says.
package tokens
