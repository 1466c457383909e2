package main

import (
	"fmt"
	"net/http"

	"github.com/go-politeness/politeness/internal/localsite"
)

// startSite serves a site with a login on loopback.
func startSite() *localsite.Site {
	s := localsite.Start()
	s.Handle("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "secret" {
			http.Error(w, "wrong password", http.StatusForbidden)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "42", Path: "/", HttpOnly: true})
		http.Redirect(w, r, "/account", http.StatusSeeOther)
	})
	s.Handle("GET /login", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Please log in.") })
	s.Handle("GET /account", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("session"); err != nil || c.Value != "42" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		fmt.Fprintln(w, "Hello, me.")
	})
	s.Handle("GET /away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
	})
	return s
}
