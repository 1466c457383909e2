package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/go-politeness/politeness/internal/localsite"
)

const (
	books   = 9
	perPage = 3
	broken  = 7 // number of a book without a price
)

// A book in a list, and on its own page.
const (
	listed = `<article class="product_pod">` +
		`<h3><a href="/book/%d">Book %[1]d</a></h3><a href="/basket/%[1]d">buy</a></article>`
	alone = `<article class="product_page"><h1> Book %d </h1>` +
		`<p class="price_color">%s</p><p class="availability">%s</p></article>`
)

// startShop serves a small shop on loopback. Package virtual puts it in memory.
func startShop() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /basket\n")
	})
	list := func(w http.ResponseWriter, n int) {
		for i := n*perPage - perPage + 1; i <= n*perPage; i++ {
			fmt.Fprintf(w, listed, i)
		}
		if n*perPage < books {
			fmt.Fprintf(w, `<ul class="pager"><li><a href="/page/%d">next</a></li></ul>`, n+1)
		}
	}
	number := func(r *http.Request) int {
		n, _ := strconv.Atoi(r.PathValue("n")) // 0 is none
		return n
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { list(w, 1) })
	mux.HandleFunc("GET /page/{n}", func(w http.ResponseWriter, r *http.Request) { list(w, number(r)) })
	mux.HandleFunc("GET /book/{n}", func(w http.ResponseWriter, r *http.Request) {
		price := fmt.Sprintf("£%d.50", 10+number(r))
		if number(r) == broken {
			price = "soon"
		}
		stock := "In stock"
		if number(r)%2 == 0 {
			stock = "Out of print"
		}
		fmt.Fprintf(w, alone, number(r), price, stock)
	})
	return localsite.Serve(mux)
}
