package ui

import "github.com/maxence-charriere/go-app/v10/pkg/app"

func document() app.Value { return app.Window().Get("document") }

func byID(id string) app.Value { return app.Window().GetElementByID(id) }

// element makes an element outside of go-app's tree.
func element(tag, class string, children ...app.Value) app.Value {
	e := document().Call("createElement", tag)
	if class != "" {
		e.Set("className", class)
	}
	for _, child := range children {
		e.Call("append", child)
	}
	return e
}

// written is an element with text.
func written(tag, class, text string) app.Value {
	e := element(tag, class)
	e.Set("textContent", text)
	return e
}

// attr sets attributes given as name, value.
func attr(e app.Value, pairs ...string) app.Value {
	for i := 0; i+1 < len(pairs); i += 2 {
		e.Call("setAttribute", pairs[i], pairs[i+1])
	}
	return e
}

// svg is an element of a drawing: sizes there are attributes, which the page's policy allows where it forbids styles.
func svg(tag string) app.HTMLElem { return app.Elem(tag).XMLNS("http://www.w3.org/2000/svg") }

// named gives an element its name for tests.
func named[T interface{ DataSet(string, any) T }](e T, name string) T {
	return e.DataSet("testid", name)
}
