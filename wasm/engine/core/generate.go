package core

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/wasm/tokenizer"
)

// generate runs one turn. A turn that fails or is stopped while its prompt is read leaves a conversation as it was; a
// first turn leaves it empty. Either way the page hears what the cache holds afterwards.
func (e *engine) generate(j job, g proto.Generate) (proto.Done, error) {
	if err := e.needModel(); err != nil {
		return proto.Done{}, err
	}
	if err := checkGenerate(g, e.tok.Vocab()); err != nil {
		return proto.Done{}, err
	}
	if err := e.session.Watch(g.Rows); err != nil {
		return proto.Done{}, err
	}
	if g.Resume && e.history.Tokens() == 0 {
		return proto.Done{}, proto.Failure{Code: proto.CodeEmpty, Op: "resume", Msg: "there is no answer to go on with"}
	}
	later := g.Resume || g.Continue && e.session.Position() > 0
	parts, err := e.prompt(&g, later)
	if err != nil {
		return proto.Done{}, err
	}
	if !later {
		if err := e.lasting(j, lost, func() error { return e.first(parts, int(g.Max)) }); err != nil {
			return proto.Done{}, err
		}
		if err := e.session.Watch(g.Rows); err != nil { // the session may be another
			return proto.Done{}, err
		}
	}
	if e.decode = (rate{}); !g.Resume {
		e.prefill = rate{}
	}
	done, err := e.turn(j, g, parts)
	if err == nil {
		e.tellKept(j)
	}
	e.send(j.id, e.state())
	return done, err
}

// first prepares the session for a first turn. A cap that is a share is settled now; a story that lies compressed beside
// the cache keeps the cap that it was compressed under.
func (e *engine) first(parts [][]int32, limit int) error {
	if e.saved.holds(parts) {
		e.history = llama.History{}
		return nil
	}
	e.saved.close()
	tokens := len(slices.Concat(parts...)) + limit
	if e.memory.Share == 0 && (e.memory.Cap == 0 || full(e.memory.Recipe)) || e.full == tokens {
		e.full = tokens
		e.empty()
		return nil
	}
	was := e.full
	e.full = tokens
	err := e.makeSession(e.memory)
	if err != nil {
		e.full = was
		if e.makeSession(e.memory) != nil {
			e.close()
		}
	}
	return err
}

// turn reads a prompt and answers it, or goes on with the last answer. What a lost backend has taken with it is done
// again, unheard.
func (e *engine) turn(j job, g proto.Generate, parts [][]int32) (done proto.Done, err error) {
	a := &answer{e: e, id: j.id, ctx: j.ctx, g: g, dec: e.tok.NewDecoder()}
	if g.Mode != proto.Raw {
		a.stops = e.manifest.Stop
	}
	if g.Resume {
		a.goOn(e.history.Answer())
	} else if err := e.announce(j, parts); err != nil {
		return done, err
	}
	err = e.lasting(j, e.spent, func() (err error) {
		ctx := j.ctx
		if a.again = 0; len(a.ids) > 0 { // what the page has seen comes again, also if it wants no more
			ctx = context.WithoutCancel(ctx)
		}
		if err := e.session.Watch(g.Rows); err != nil { // the session may be another
			return err
		}
		if !g.Resume {
			if err := e.read(ctx, j, parts); err != nil {
				return err
			}
		}
		s := sample.New(params(g.Sampling))
		s.Skip(len(a.before))
		done.Reason, err = a.run(ctx, s)
		return err
	})
	done.Tokens = uint32(len(a.ids))
	return done, err
}

// announce tells the page the tokens of a prompt, if they fit.
func (e *engine) announce(j job, parts [][]int32) error {
	ids := slices.Concat(parts...)
	p := proto.Prompt{First: uint32(e.session.Position())}
	asked := len(ids)
	room := e.session.Room()
	if e.session.Budget().Tokens > 0 {
		room = math.MaxInt // what does not fit leaves
	}
	if e.saved.holds(parts) {
		p.First, room = 0, asked // reading tells
	} else if _, pending := e.session.Pending(); pending {
		p.First++
		asked++
	}
	if asked > room {
		return tooLong(asked, room, e.session.Cap())
	}
	p.IDs, p.PieceEnd, p.Text = e.pieces(ids)
	e.send(j.id, p)
	return nil
}

// read prefills a prompt, part by part. If it fails, a first turn leaves the cache empty.
func (e *engine) read(ctx context.Context, j job, parts [][]int32) (err error) {
	begin, tokens := time.Now(), 0
	for i, ids := range parts {
		if i < len(parts)-1 && e.saved.holds(parts) {
			if err := e.session.Restore(e.saved.checkpoint); err != nil {
				return err
			}
			continue
		}
		err = e.session.Prefill(ctx, ids, e.reading(j))
		if err == nil && i < len(parts)-1 {
			err = e.save(ctx, ids)
		}
		if err != nil {
			if len(parts) > 1 {
				e.empty()
			}
			return err
		}
		tokens += len(ids)
		e.tellKept(j)
	}
	e.prefill = rate{tokens, time.Since(begin).Seconds()}
	return nil
}

// answer is the generated part of a turn.
type answer struct {
	e     *engine
	id    uint32
	ctx   context.Context // of the request
	g     proto.Generate
	stops []string
	dec   *tokenizer.Decoder
	tail  string // the end of the text, as far as a stop text may begin in it
	ids   []int32
	again int  // how many of ids have come again, after the backend was lost
	text  bool // a stop text came

	before []int32 // tokens of the answer that this one goes on with
}

// goOn makes it the rest of an answer: what waits for a character's last byte, or for the rest of a stop text, waits on.
func (a *answer) goOn(before []int32) {
	for _, id := range before {
		if a.show(id); a.text {
			a.text, a.tail = false, ""
		}
	}
	a.before = before
}

func (a *answer) run(ctx context.Context, s *sample.Sampler) (proto.Reason, error) {
	forced := slices.Clone(a.ids) // what has come comes again
	for _, id := range a.g.Forced[min(len(forced), len(a.g.Forced)):] {
		forced = append(forced, int32(id))
	}
	most := a.g.Max
	if a.g.Pause > 0 {
		most = min(most, a.g.Pause)
	}
	reason, err := a.e.session.Generate(ctx, llama.GenerateOptions{
		Max: int(most), Sampler: s, Stop: a.ends, Forced: forced, Evictions: true,
	}, a.emit)
	if reason == llama.ReasonFull {
		err = nil
	}
	return a.reason(reason), err
}

// reason says why the answer ended.
func (a *answer) reason(r llama.Reason) proto.Reason {
	switch {
	case r == llama.ReasonFull:
		return proto.ReasonFull
	case a.text:
		return proto.ReasonStopText
	case r == llama.ReasonStopID:
		return proto.ReasonStopID
	case r == llama.ReasonMax:
		return proto.ReasonMax
	case r == llama.ReasonStopped:
		return proto.ReasonStopped
	}
	return proto.ReasonNone
}

// ends says whether a token ends the answer by itself: a device that works ahead must know before its text is seen.
func (a *answer) ends(id int32) bool {
	if a.e.tok.EOG(id) {
		return true
	}
	for _, stop := range a.stops {
		if bytes.Contains(a.e.tok.Piece(id), []byte(stop)) {
			return true
		}
	}
	return false
}

// emit sends one token as a Step.
func (a *answer) emit(t llama.Token) error {
	e := a.e
	if a.again < len(a.ids) {
		a.again++
		if a.again == len(a.ids) && a.ctx.Err() != nil {
			return llama.ErrStop
		}
		return nil
	}
	if len(a.ids) > 0 { // the first token comes from the prefill
		e.decode.tokens++
		e.decode.seconds += t.Millis / 1000
	}
	top := t.Choice
	n := len(top.TopIDs)
	for n > 0 && top.TopIDs[n-1] < 0 { // a vocabulary of less than five
		n--
	}
	s := proto.Step{
		Step: uint32(len(a.ids)), Position: uint32(t.Position), Token: uint32(t.ID),
		Phase: proto.PhaseDecode, Forced: len(a.ids) < len(a.g.Forced),
		Text: a.show(t.ID), Bytes: e.tok.Piece(t.ID),
		Millis: float32(t.Millis), Prob: top.Prob,
		TopIDs: make([]uint32, n), TopProbs: top.TopProbs[:n], TopTexts: make([]string, n),
		Ledger: e.state().Ledger, Seed: a.g.Sampling.Seed, Recipe: e.session.Recipe().Method, RecipeVersion: recipeVersion,
		Evictions: e.evictions(t.Evicted, len(a.ids)),
	}
	for i, id := range top.TopIDs[:n] {
		s.TopIDs[i] = uint32(id)
		s.TopTexts[i] = e.tok.Decode([]int32{id})
	}
	e.look(&s)
	a.ids = append(a.ids, t.ID)
	a.again++
	e.send(a.id, s)
	if a.text {
		return llama.ErrStop
	}
	return nil
}

// show returns the text that becomes final with a token, and looks for a stop text. The stop text itself is shown, it is
// the answer's full stop; white space at its end and what comes after it are not.
func (a *answer) show(id int32) string {
	if a.e.tok.Control(id) {
		return a.dec.Flush()
	}
	text := a.dec.Push(id)
	whole := a.tail + text
	end, longest := -1, 0
	for _, stop := range a.stops {
		longest = max(longest, len(stop))
		if i := strings.Index(whole, stop); i >= 0 && (end < 0 || i+len(stop) < end) {
			end = i + len(stop)
		}
	}
	if end < 0 {
		a.tail = whole[len(whole)-min(len(whole), max(0, longest-1)):]
		return text
	}
	a.text = true
	return strings.TrimRight(text[:max(0, end-len(a.tail))], " \t\r\n")
}

// cadence thins out progress.
type cadence struct{ last time.Duration }

// now says whether it is time to tell; the end is always told.
func (c *cadence) now(end bool) bool {
	t := step.Clock()
	if !end && t-c.last < 100*time.Millisecond {
		return false
	}
	c.last = t
	return true
}
