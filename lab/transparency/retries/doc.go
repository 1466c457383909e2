// Package retries runs the retry loops of ten libraries, at the versions of go.mod, around a
// Transport that refuses. The tables of docs/migrating.md have the results.
package retries
