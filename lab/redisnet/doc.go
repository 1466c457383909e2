// Package redisnet tests crawlers that share a Redis over networks of their own, which lose and
// delay packets and are cut; and it runs the commands of docs/many-machines.md.
package redisnet
