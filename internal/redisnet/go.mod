module github.com/go-politeness/politeness/internal/redisnet

go 1.26.0

require (
	github.com/go-politeness/politeness v0.0.0
	github.com/go-politeness/politeness/redis v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	github.com/go-politeness/politeness => ../..
	github.com/go-politeness/politeness/redis => ../../redis
)
