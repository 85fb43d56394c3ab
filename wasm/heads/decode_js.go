package heads

import (
	"fmt"
	"syscall/js"

	"kvlens/cache/policy"
	"kvlens/wasm/jsutil"
)

// decode reads tables with the browser's parser, as weights reads manifests: encoding/json is large. The files are our own,
// so that anything unexpected is one error.
func decode(data []byte, t *policy.Tables) (err error) {
	defer jsutil.Catch("JSON.parse", &err)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *js.ValueError: // a value of another type than expected
			err = fmt.Errorf("not head tables: %w", r)
		default:
			panic(r)
		}
	}()
	v := js.Global().Get("JSON").Call("parse", string(data))
	t.Model, t.Method, t.Data = v.Get("model").String(), v.Get("method").String(), v.Get("data").String()
	t.Tried, t.Samples = v.Get("tried").Int(), v.Get("samples").Int()
	for _, table := range []struct {
		key string
		to  *[][]float32
	}{
		{"retrieval", &t.Retrieval},
		{"semantic", &t.Semantic},
		{"induction", &t.Induction},
		{"echo", &t.Echo},
		{"sink", &t.Sink},
		{"local", &t.Local},
	} {
		rows := v.Get(table.key)
		for i := range rows.Length() {
			*table.to = append(*table.to, numbers(rows.Index(i)))
		}
	}
	t.Errors = numbers(v.Get("errors"))
	cut := v.Get("thresholds")
	t.Thresholds = policy.Thresholds{
		Retrieval: float32(cut.Get("retrieval").Float()), Induction: float32(cut.Get("induction").Float()),
		Echo: float32(cut.Get("echo").Float()),
	}
	return nil
}

func numbers(list js.Value) []float32 {
	out := make([]float32, list.Length())
	for i := range out {
		out[i] = float32(list.Index(i).Float())
	}
	return out
}
