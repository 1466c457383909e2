package conntrace_test

import (
	"context"
	"net/http/httptrace"
	"testing"

	"github.com/go-politeness/politeness/internal/conntrace"
)

func TestHooksComeAfterTheCallers(t *testing.T) {
	order := ""
	ours := func(httptrace.GotConnInfo) { order += "ours " }
	hooks := conntrace.Hooks(t.Context(), nil, ours)
	hooks.GotConn(httptrace.GotConnInfo{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { order += "theirs " },
		GetConn: func(string) { order += "get " },
	})
	hooks = conntrace.Hooks(ctx, func(string) { order += "asked " }, ours)
	hooks.GetConn("")
	hooks.GotConn(httptrace.GotConnInfo{})
	if order != "ours get asked theirs ours " {
		t.Errorf("called: %s", order)
	}
	// A context that answers to Key is what httptrace finds.
	if found := httptrace.ContextClientTrace(context.WithValue(t.Context(), conntrace.Key, &hooks)); found != &hooks {
		t.Error("httptrace doesn't find hooks under Key")
	}
}
