module github.com/go-politeness/politeness/examples/selectors

go 1.26.0

require (
	github.com/PuerkitoBio/goquery v1.11.0
	github.com/go-politeness/politeness v0.0.0
)

require (
	github.com/andybalholm/cascadia v1.3.3 // indirect
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/go-politeness/politeness => ../..
