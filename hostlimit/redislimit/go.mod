module github.com/go-politeness/politeness/hostlimit/redislimit

go 1.26.0

require (
	github.com/go-politeness/politeness v0.0.0
	github.com/redis/go-redis/v9 v9.17.0
)

replace github.com/go-politeness/politeness => ../..
