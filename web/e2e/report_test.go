//go:build !js

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// failures are the failures of all tests: they are printed once more at the end, where a log that was cut still has them.
var failures struct {
	sync.Mutex
	list []string
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range failures.list {
		fmt.Println("FAILED " + f)
	}
	os.Exit(code)
}

// note keeps a failure for the end.
func (v *visitor) note(what string) {
	failures.Lock()
	defer failures.Unlock()
	failures.list = append(failures.list, v.Name()+": "+what)
}

// Errorf and Fatalf hide those of testing.T.
func (v *visitor) Errorf(format string, args ...any) {
	v.Helper()
	v.note(fmt.Sprintf(format, args...))
	v.T.Errorf(format, args...)
}

func (v *visitor) Fatalf(format string, args ...any) {
	v.Helper()
	v.note(fmt.Sprintf(format, args...))
	v.T.Fatalf(format, args...)
}

// report says in few lines what the page looked like when a test failed.
func (v *visitor) report() {
	messages := v.b.Console()
	const most = 12
	for _, m := range messages[max(0, len(messages)-most):] {
		v.Logf("console %s: %.300s (%s)", m.Level, m.Text, m.URL)
	}
	v.Logf("state: %s", v.brief())
}

// brief is the page's state in one line, as an expression of the page cuts it.
func (v *visitor) brief() string {
	s, err := evaluate[string](v, `(() => {
		const s = `+snapshot+`;
		if (!s) return "none";
		const {phase, model, mode, backend, max, work, problem, turns, memory} = s;
		const cut = (t) => ({asked: t.asked.slice(0, 40), text: t.text.slice(0, 60), pieces: t.pieces, tokens: t.tokens, reason: t.reason, ended: t.ended});
		return JSON.stringify({phase, model: model.split("/").slice(-2).join("/"), mode, backend, max, work, problem, stored: memory.stored, turns: turns.slice(-3).map(cut)});
	})()`)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(s, "?")
}
