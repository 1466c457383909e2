module github.com/go-politeness/politeness/benchmarks

go 1.26.0

require github.com/go-politeness/politeness v0.0.0

require (
	github.com/benjaminestes/robots/v2 v2.0.5 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/failsafe-go/failsafe-go v0.9.8 // indirect
	github.com/jimsmart/grobotstxt v1.0.3 // indirect
	github.com/temoto/robotstxt v1.1.2 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/go-politeness/politeness => ../
