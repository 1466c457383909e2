package main

import (
	"fmt"
	"net/http"

	"github.com/go-politeness/politeness/internal/localsite"
)

// startShop serves five pages on loopback.
func startShop() *localsite.Site {
	s := localsite.Start()
	s.Handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<title>Shop</title>")
		for n := 1; n <= 4; n++ {
			fmt.Fprintf(w, "<a href=/item/%d>%[1]d</a> ", n)
		}
	})
	s.Handle("GET /item/{n}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<title>Item %s</title>", r.PathValue("n"))
	})
	return s
}
