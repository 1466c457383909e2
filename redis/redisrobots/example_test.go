package redisrobots_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/redis/redisrobots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// Processes that do this fetch each robots.txt once.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisrobots.New(redisrobots.Config{Client: client})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := robotscache.Config{Store: store} // politeness.Config.Robots takes it
	fmt.Println(cfg.Validate())
	// Output: <nil>
}
