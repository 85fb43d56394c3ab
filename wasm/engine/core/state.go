package core

import (
	"runtime"
	"runtime/debug"
	"slices"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
)

// rate is tokens per second of the last turn.
type rate struct {
	tokens  int
	seconds float64
}

func (r rate) value() float32 {
	if r.tokens <= 0 || r.seconds <= 0 {
		return 0
	}
	return float32(float64(r.tokens) / r.seconds)
}

// state describes the session, and keeps the description for GetState.
func (e *engine) state() proto.State {
	s := proto.State{
		Reserved: e.Reserved(), Ledger: e.ledger(),
		PrefillRate: e.prefill.value(), DecodeRate: e.decode.value(),
	}
	if e.session != nil {
		s.Stored, s.Position = uint32(e.session.Stored()), uint32(e.session.Position())
		s.Room, s.Cap = uint32(e.session.Room()), uint64(e.session.Cap())
		s.Context = uint32(e.model.Config().Context)
	}
	e.mu.Lock()
	e.latest = s
	e.mu.Unlock()
	return s
}

// ledger is the kinds that hold or held something.
func (e *engine) ledger() []proto.LedgerRow {
	var rows []proto.LedgerRow
	for kind, r := range e.led.Rows() {
		if r.Peak > 0 {
			rows = append(rows, proto.LedgerRow{
				Kind: uint8(kind), Logical: uint64(r.Logical), Allocated: uint64(r.Allocated), Peak: uint64(r.Peak),
			})
		}
	}
	return slices.Clip(rows)
}

// garbage is how many bytes may lie around until the collector runs. WASM memory never shrinks, so what is once used as
// garbage is lost to the reader.
const garbage = 8 << 20

// limitGarbage sets the collector's percentage by what is alive.
func (e *engine) limitGarbage() {
	if e.Reserved() == 0 {
		return
	}
	live := int64(4 << 20) // the program's own
	for kind, r := range e.led.Rows() {
		if !e.onGPU() || cache.Kind(kind) == cache.Staging { // the rest lies on the device
			live += r.Allocated
		}
	}
	debug.SetGCPercent(int(min(100, max(4, garbage*100/live))))
}

// close frees session, model and backend.
func (e *engine) close() {
	e.saved.close()
	if e.session != nil {
		e.session.Close()
	}
	if e.model != nil {
		e.model.Close()
	}
	if e.backend != nil {
		_ = e.backend.Close()
	}
	e.session, e.model, e.backend, e.tok, e.manifest, e.prompts, e.history = nil, nil, nil, nil, nil, prompts{}, llama.History{}
	e.tables, e.refused = nil, nil
	runtime.GC()
}

func (e *engine) reset(j job) error {
	if err := e.needModel(); err != nil {
		return err
	}
	e.saved.close()
	e.empty()
	e.send(j.id, e.state())
	return nil
}

// empty ends the conversation.
func (e *engine) empty() {
	e.session.Reset()
	e.history = llama.History{}
}

func (e *engine) needModel() error {
	if e.session == nil {
		return badRequest("model", "no model is open")
	}
	return nil
}
