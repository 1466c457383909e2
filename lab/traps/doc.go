// Package traps crawls real software with endless URL spaces, and counts the requests that a crawl
// needs for its pages. It has tests only.
package traps
