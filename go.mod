module github.com/go-politeness/politeness

go 1.26.0

require (
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/jimsmart/grobotstxt v1.0.3
	golang.org/x/mod v0.43.0
	golang.org/x/net v0.62.0
	golang.org/x/sync v0.25.0
)

require golang.org/x/text v0.43.0 // indirect
