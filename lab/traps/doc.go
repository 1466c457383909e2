// Package traps crawls real software whose URL spaces have no end, and counts the requests that a
// crawl needs for its pages. It is tests only.
package traps
