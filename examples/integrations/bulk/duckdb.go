//go:build cgo

package main

import _ "github.com/duckdb/duckdb-go/v2" // registers "duckdb"
