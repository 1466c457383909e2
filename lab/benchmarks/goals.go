package main

import "fmt"

// A goals is the table of a section's targets. Each says why a user would care.
type goals struct{ table }

func newGoals(of string) *goals {
	return &goals{
		table: table{caption: "Against what is wanted:", header: []string{of, "measured", "wanted", "", "because"}},
	}
}

// atMost notes that x, what was measured, is wanted to be want at most.
func (g *goals) atMost(what string, x, want float64, format func(float64) string, because string) {
	g.add(what, format(x), "≤ "+format(want), verdict(x <= want), because)
}

// atLeast notes that x is wanted to be want at least.
func (g *goals) atLeast(what string, x, want float64, format func(float64) string, because string) {
	g.add(what, format(x), "≥ "+format(want), verdict(x >= want), because)
}

// none notes that n is wanted to be 0.
func (g *goals) none(what string, n int, because string) {
	g.add(what, count(n), "0", verdict(n == 0), because)
}

func number(x float64) string { return fmt.Sprintf("%.0f", x) }

func perCent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
