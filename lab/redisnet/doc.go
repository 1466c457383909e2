// Package redisnet tests crawlers that share a Redis, over separate networks that lose and delay
// packets and are cut. It also runs the commands of docs/many-machines.md.
package redisnet
