//go:build !js

package ui

import (
	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/app/text"
)

// Routes registers the page for prerendering, in the language that a page without a reader has.
func Routes() error {
	words, err := text.Load(state.Languages[0])
	if err != nil {
		return err
	}
	app.Route("/", func() app.Composer { return NewHome(words) })
	return nil
}

// NewHome is the page as it stands before its program runs.
func NewHome(words *text.Catalogue) *Home { return &Home{c: newController(words, noHost{})} }

// noHost is no browser.
type noHost struct{}

func (noHost) Now() float64                        { return 0 }
func (noHost) Fetch(string, func(*text.Catalogue)) {}
func (noHost) Save(string, string)                 {}
func (noHost) Address(string)                      {}
func (noHost) Reload()                             {}
