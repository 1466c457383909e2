module github.com/go-politeness/politeness/cmd/politeness

go 1.26.0

require (
	github.com/go-politeness/politeness v0.0.0
	golang.org/x/mod v0.42.0
	golang.org/x/net v0.62.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/go-politeness/politeness => ../..
