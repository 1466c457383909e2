// Package document writes the beginning of each HTML file of the command. The file fetches nothing,
// and tells browsers to allow no fetch.
package document

import (
	_ "embed"
	"html/template"
)

//go:embed head.html
var headHTML string

// Template parses a document that begins with {{template "head" TITLE}}, which writes everything
// before its body. Scripts are those in the document itself; without them, none runs.
func Template(text, css string, scripts bool, functions template.FuncMap) *template.Template {
	t := template.New("document").Option("missingkey=error").Funcs(functions).Funcs(template.FuncMap{
		"css":     func() template.CSS { return template.CSS(css) },
		"scripts": func() bool { return scripts },
	})
	return template.Must(template.Must(t.Parse(headHTML)).Parse(text))
}
