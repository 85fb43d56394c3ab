//go:build !js

package main

import "github.com/maxence-charriere/go-app/v10/pkg/app"

type waiting struct{ app.Compo }

func (*waiting) Render() app.UI { return app.Div() }

func route() { app.Route("/", func() app.Composer { return &waiting{} }) }
