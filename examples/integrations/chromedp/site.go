package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/go-politeness/politeness/internal/localsite"
)

const shop = `<!doctype html><title>Shop</title>
<link rel=stylesheet href=/style.css>
<script src=/library.js></script>
<script>
const show = text => document.body.append(text + ". ")
addEventListener("load", () => Promise.all([
	fetch("/api/items", {method: "POST", body: "how many?"}).then(r => r.text()).then(show),
	fetch("/private/data").then(() => show("private data"), () => show("private data refused")),
	new Promise(done => {
		const socket = new WebSocket("ws://" + location.host + "/socket")
		socket.onopen = socket.onerror = event => done(show("socket: " + event.type))
	}),
]).then(() => document.body.id = "ready"))
</script>
<img src=/logo.png><iframe src=/frame></iframe>
`

// sitePages are the pages of the site that are read.
func sitePages(origin string) []page {
	return []page{
		{origin + "/shop", "#ready"},
		{origin + "/moved", "body"},         // redirects to /e
		{origin + "/trap", "body"},          // redirects to /private/diary
		{origin + "/private/diary", "body"}, // disallowed
	}
}

// startSite serves a page that needs a browser, on loopback.
func startSite() *localsite.Site {
	s := localsite.Start()
	s.Handle("/shop", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visitor", Value: "7"})
		http.SetCookie(w, &http.Cookie{Name: "currency", Value: "eur"})
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, shop)
	})
	s.Handle("POST /api/items", func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q: 3 items for %s", question, r.Header.Get("Cookie"))
	})
	return s
}
