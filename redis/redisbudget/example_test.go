package redisbudget_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/redis/redisbudget"
)

// Ten processes that do this spend 50,000 pages together.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	b, err := redisbudget.New(redisbudget.Config{
		Client:    client,
		Name:      "crawl-2026-11-21",
		Limits:    budget.Limits{Pages: 50_000, WarnAt: 0.8},
		Processes: 10,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close() // gives back what isn't spent; politeness.Config.Budget takes b
	fmt.Println(b.Limits().Pages)
	// Output: 50000
}
