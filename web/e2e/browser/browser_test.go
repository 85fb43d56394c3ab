//go:build !js

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// What the page, and a worker of the page, say and ask for is recorded.
func TestRecords(t *testing.T) {
	if _, err := Path(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: " + err.Error())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/" {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>t</title><link rel="icon" href="data:,"><script>
console.log("said", 42, {a: 1});
const w = new Worker("/w.js");
w.onmessage = () => setTimeout(() => { document.title = "done"; throw new Error("thrown late") }, 0);
</script>`))
	})
	mux.HandleFunc("/w.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`fetch("http://foreign.test/x").catch(() => 0).then(() => postMessage(1)); console.error("from the worker")`))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := Start(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := chromedp.Do(b.Ctx, chromedp.Navigate(srv.URL)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(b.Ctx, chromedp.Poll[bool](`document.title == "done"`)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(b.Errors()) < 3 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// what they said comes on ways of its own
	}
	has := func(level, text string) bool {
		return slices.ContainsFunc(b.Console(), func(m Message) bool { return m.Level == level && strings.Contains(m.Text, text) })
	}
	if !has("log", "said 42") || !has("exception", "thrown late") {
		t.Errorf("console: %+v", b.Console())
	}
	if !slices.Contains(b.Requests(), srv.URL+"/") {
		t.Errorf("requests: %v", b.Requests())
	}
	if !slices.Equal(b.Foreign(), []string{"foreign.test"}) {
		t.Errorf("foreign: %v", b.Foreign())
	}
	if len(b.Errors()) != 3 { // the worker's line, the refused fetch, the exception
		t.Errorf("errors: %+v", b.Errors())
	}
}
