// Package jsutil holds the few things that both programs need of JavaScript: packets over postMessage, giving way to the
// event loop, and the size of the WASM memory. All of it lives in files for js.
package jsutil
