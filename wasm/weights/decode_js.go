package weights

import (
	"errors"
	"fmt"
	"math"
	"syscall/js"

	"kvlens/wasm/jsutil"
)

// decode reads a manifest's fields, unchecked, with the browser's parser: encoding/json would make the engine a tenth
// larger for this one file.
func decode(data []byte, m *Manifest) (err error) {
	defer jsutil.Catch("JSON.parse", &err)
	v := js.Global().Get("JSON").Call("parse", string(data))
	if !plainObject(v) {
		return errors.New("not an object")
	}
	d := &decoder{}
	m.Format = int(d.number(v, "format"))
	m.ID, m.Name, m.Licence, m.Source = d.text(v, "id"), d.text(v, "name"), d.text(v, "licence"), d.text(v, "source")
	m.Size, m.SHA256 = d.number(v, "size"), d.text(v, "sha256")
	for _, p := range d.list(v, "parts", maxParts) {
		m.Parts = append(m.Parts, Part{Name: d.text(p, "name"), Size: d.number(p, "size"), SHA256: d.text(p, "sha256")})
	}
	for _, s := range d.list(v, "stop", maxStops) {
		m.Stop = append(m.Stop, d.string(s, "stop"))
	}
	if prompt := d.object(v, "prompt"); !prompt.IsUndefined() {
		m.Prompt.Mode = d.text(prompt, "mode")
		if t := d.object(prompt, "templates"); !t.IsUndefined() {
			m.Prompt.Templates = make(map[string]string)
			for _, key := range items(object.Call("keys", t), maxLanguages) {
				m.Prompt.Templates[key.String()] = d.string(t.Get(key.String()), "templates")
			}
		}
	}
	return d.err
}

// decoder takes values of the expected types, missing ones as zero, and keeps the first error.
type decoder struct{ err error }

func (d *decoder) fail(key, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s is not %s", key, want)
	}
}

// get is a member of v; undefined if it is missing or null, or if v is no object.
func (d *decoder) get(v js.Value, key string) js.Value {
	if !plainObject(v) {
		d.fail("what holds "+key, "an object")
		return js.Undefined()
	}
	if x := v.Get(key); !x.IsNull() {
		return x
	}
	return js.Undefined()
}

func (d *decoder) text(v js.Value, key string) string {
	x := d.get(v, key)
	if x.IsUndefined() {
		return ""
	}
	return d.string(x, key)
}

func (d *decoder) string(v js.Value, key string) string {
	if v.Type() != js.TypeString {
		d.fail(key, "a text")
		return ""
	}
	return v.String()
}

func (d *decoder) number(v js.Value, key string) int64 {
	x := d.get(v, key)
	if x.IsUndefined() {
		return 0
	}
	if x.Type() != js.TypeNumber || x.Float() != math.Trunc(x.Float()) || math.Abs(x.Float()) > 1<<53 {
		d.fail(key, "a whole number")
		return 0
	}
	return int64(x.Float())
}

func (d *decoder) object(v js.Value, key string) js.Value {
	x := d.get(v, key)
	if !x.IsUndefined() && !plainObject(x) {
		d.fail(key, "an object")
		return js.Undefined()
	}
	return x
}

func (d *decoder) list(v js.Value, key string, limit int) []js.Value {
	x := d.get(v, key)
	if x.IsUndefined() {
		return nil
	}
	if !array.Call("isArray", x).Bool() {
		d.fail(key, "a list")
		return nil
	}
	return items(x, limit)
}

// items are a list's elements, at most one more than limit: enough for the check to refuse it.
func items(list js.Value, limit int) []js.Value {
	out := make([]js.Value, min(list.Length(), limit+1))
	for i := range out {
		out[i] = list.Index(i)
	}
	return out
}

var array = js.Global().Get("Array")

func plainObject(v js.Value) bool {
	return v.Type() == js.TypeObject && !array.Call("isArray", v).Bool()
}
