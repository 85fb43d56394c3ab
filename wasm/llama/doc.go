// Package llama runs models of the llama architecture on a [step.Backend]: it reads their metadata, packs their weights
// into the backend's memory, writes the step program, and drives it in sessions.
//
// A [Model] is the weights and the program; a [Session] is one conversation with its cache. Prefill goes layer by layer
// over the whole prompt, decoding token by token over all layers.
package llama
