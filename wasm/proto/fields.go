package proto

// The fields of each message in the order in which they travel.

func (m *Hello) fields(w *wire) {
	w.u32(&m.Version)
	w.text(&m.Build)
}

func (m *Open) fields(w *wire) {
	w.text(&m.Manifest)
	w.text(&m.Backend)
	m.Memory.fields(w)
	w.boolean(&m.Float)
}

func (m *Memory) fields(w *wire) {
	w.u64(&m.Cap)
	w.f32(&m.Share)
	m.Recipe.fields(w)
	w.boolean(&m.F32)
	w.boolean(&m.Parity)
	w.boolean(&m.Explain)
	w.boolean(&m.Shadow)
	w.boolean(&m.Undo)
}

func (m *Recipe) fields(w *wire) {
	m.Method.fields(w)
	list(w, &m.Wraps, 12, func(w *wire, s *Setting) { s.fields(w) })
}

func (m *Setting) fields(w *wire) {
	w.text(&m.Name)
	w.texts(&m.Knobs)
	w.f64s(&m.At)
}

func (m *SetMemory) fields(w *wire) { m.Memory.fields(w) }

func (m *Generate) fields(w *wire) {
	w.text(&m.Text)
	w.text(&m.Question)
	w.text(&m.System)
	w.u8((*uint8)(&m.Mode))
	w.boolean(&m.Continue)
	w.u32(&m.Max)
	m.Sampling.fields(w)
	w.u32s(&m.Forced)
	w.boolean(&m.Later)
	w.boolean(&m.Rows)
	w.boolean(&m.Resume)
	w.u32(&m.Pause)
}

func (m *Sampling) fields(w *wire) {
	w.f32(&m.Temperature)
	w.f32(&m.TopP)
	w.f32(&m.MinP)
	w.f32(&m.Repeat)
	w.u32(&m.TopK)
	w.u32(&m.Seed)
}

func (m *Stop) fields(w *wire) { w.u32(&m.Target) }

func (*Reset) fields(*wire)    {}
func (*GetState) fields(*wire) {}
func (*Ping) fields(*wire)     {}

func (m *ListModels) fields(w *wire)  { w.texts(&m.Manifests) }
func (m *DeleteModel) fields(w *wire) { w.text(&m.Manifest) }

func (m *View) fields(w *wire) {
	w.u32(&m.Layer)
	w.u32(&m.Head)
}

func (m *Matrix) fields(w *wire) {
	for _, v := range []*uint32{&m.Layer, &m.Head, &m.First, &m.Tokens, &m.Pool, &m.Cells} {
		w.u32(v)
	}
	w.u8s(&m.Codes)
	w.u32s(&m.Left)
	w.u8s(&m.Would)
}

func (m *Progress) fields(w *wire) {
	w.u8((*uint8)(&m.Stage))
	w.u64(&m.Done)
	w.u64(&m.Total)
	w.u64(&m.Resumed)
	w.u32(&m.Refetched)
}

func (m *Opened) fields(w *wire) {
	for _, v := range []*string{&m.Name, &m.Licence, &m.Source, &m.Arch, &m.FileType} {
		w.text(v)
	}
	for _, v := range []*uint32{
		&m.Layers, &m.Heads, &m.KVHeads, &m.HeadDim,
		&m.Hidden, &m.FFN, &m.Vocab, &m.Context,
	} {
		w.u32(v)
	}
	w.u64(&m.Params)
	w.u64(&m.FileBytes)
	w.u32(&m.TokenBytes)
	w.u8s(&m.Modes)
	w.text(&m.Backend)
	w.text(&m.BackendDetail)
	w.text(&m.BackendWhy)
	w.boolean(&m.OPFS)
	w.boolean(&m.Tables)
	m.State.fields(w)
}

func (m *Prompt) fields(w *wire) {
	w.u32(&m.First)
	w.u32s(&m.IDs)
	w.u32s(&m.PieceEnd)
	w.texts(&m.Text)
}

func (m *Step) fields(w *wire) {
	w.u32(&m.Step)
	w.u32(&m.Position)
	w.u32(&m.Token)
	w.u8((*uint8)(&m.Phase))
	w.boolean(&m.Forced)
	w.text(&m.Text)
	w.u8s(&m.Bytes)
	w.f32(&m.Millis)
	w.f32(&m.Prob)
	w.u32s(&m.TopIDs)
	w.f32s(&m.TopProbs)
	w.texts(&m.TopTexts)
	w.rows(&m.Ledger)
	w.u8s(&m.Kept)
	w.u8s(&m.Reasons)
	m.Evictions.fields(w)
	w.f32s(&m.Virtual)
	w.u8s(&m.Rows)
	w.u32(&m.RowTokens)
	m.Heads.fields(w)
	w.f32s(&m.Gold)
	w.f32(&m.RefKL)
	w.boolean(&m.RefAgree)
	w.boolean(&m.HasRef)
	w.u32(&m.Seed)
	w.text(&m.Recipe)
	w.u32(&m.RecipeVersion)
}

func (m *Evictions) fields(w *wire) {
	w.u32s(&m.Layer)
	w.u32s(&m.Head)
	w.u32s(&m.Position)
	w.u32s(&m.Step)
	w.u32s(&m.Rank)
	w.u8s(&m.Rule)
	w.f32s(&m.Score)
	w.f32s(&m.Threshold)
}

func (m *HeadSummaries) fields(w *wire) {
	w.f32s(&m.Sink)
	w.f32s(&m.Local)
	w.f32s(&m.Entropy)
	w.f32s(&m.Top1)
}

func (m *LedgerRow) fields(w *wire) {
	w.u8(&m.Kind)
	w.u64(&m.Logical)
	w.u64(&m.Allocated)
	w.u64(&m.Peak)
}

func (m *State) fields(w *wire) {
	w.u32(&m.Stored)
	w.u32(&m.Position)
	w.u32(&m.Room)
	w.u32(&m.Context)
	w.u64(&m.Cap)
	w.u64(&m.Reserved)
	w.rows(&m.Ledger)
	w.f32(&m.PrefillRate)
	w.f32(&m.DecodeRate)
}

func (m *Models) fields(w *wire) {
	w.texts(&m.Manifest)
	w.texts(&m.Name)
	w.texts(&m.Licence)
	w.u64s(&m.Size)
	w.u64s(&m.Stored)
	w.u64(&m.Quota)
	w.u64(&m.Usage)
	w.boolean(&m.OPFS)
}

func (m *Done) fields(w *wire) {
	w.u8((*uint8)(&m.Reason))
	w.u32(&m.Tokens)
}

func (m *Moved) fields(w *wire) {
	w.text(&m.Backend)
	w.text(&m.BackendDetail)
	w.text(&m.BackendWhy)
	w.boolean(&m.Recipe)
}

func (m *Kept) fields(w *wire) {
	for _, v := range []*uint32{&m.Tokens, &m.Layers, &m.KVHeads} {
		w.u32(v)
	}
	w.u8s(&m.Bits)
	w.u8s(&m.Reasons)
	w.u32s(&m.Caps)
	for _, v := range []*uint32{&m.Budget, &m.Reserve, &m.Window, &m.Published} {
		w.u32(v)
	}
	w.text(&m.Recipe)
	w.u32(&m.RecipeVersion)
	w.u32s(&m.Pins)
	w.u8s(&m.Shadowed)
}

func (m *Failure) fields(w *wire) {
	w.u16((*uint16)(&m.Code))
	w.text(&m.Op)
	w.text(&m.Msg)
	w.texts(&m.Args)
}

func (m *Explain) fields(w *wire) {
	w.u32(&m.Layer)
	w.u32(&m.KVHead)
}

func (m *Undo) fields(w *wire)   { w.u32(&m.Tokens) }
func (m *Pin) fields(w *wire)    { w.u32s(&m.Positions); w.boolean(&m.Again) }
func (m *Recall) fields(w *wire) { w.u32(&m.Position) }

func (m *Compare) fields(w *wire) {
	w.text(&m.Text)
	w.text(&m.Question)
	w.text(&m.System)
	w.u8((*uint8)(&m.Mode))
	w.u32(&m.Max)
	m.A.fields(w)
	m.B.fields(w)
	w.boolean(&m.Later)
	w.text(&m.Gold)
	w.text(&m.Other)
}

func (m *Explained) fields(w *wire) {
	w.u32(&m.Layer)
	w.u32(&m.KVHead)
	w.u32(&m.Tokens)
	w.u8s(&m.Kept)
	w.u8s(&m.Stage)
	w.u32s(&m.At)
	w.f32s(&m.Score)
	w.f32s(&m.Threshold)
	w.u32s(&m.Rank)
	w.u32s(&m.Voters)
	w.u8s(&m.Votes)
	w.u64(&m.Bytes)
}

func (m *Compared) fields(w *wire) {
	w.u32(&m.Index)
	w.u32(&m.Position)
	w.u32(&m.Token)
	w.text(&m.Text)
	w.u8s(&m.Bytes)
	w.f32s(&m.Prob)
	w.f32s(&m.KL)
	w.u8s(&m.Agree)
	w.u32s(&m.Top)
	w.texts(&m.TopTexts)
	w.f32s(&m.Margin)
}

func (m *Strayed) fields(w *wire) {
	w.u32(&m.Run)
	w.u32(&m.Index)
	w.u32(&m.Token)
	w.text(&m.Text)
	w.u8s(&m.Bytes)
	w.boolean(&m.Same)
}

func (m *Contrast) fields(w *wire) {
	w.u32(&m.Run)
	w.text(&m.Recipe)
	w.u32(&m.Tokens)
	w.f32(&m.MeanKL)
	w.f32(&m.MaxKL)
	w.u32(&m.Agree)
	w.u32(&m.Diverged)
	w.u64(&m.Cap)
	w.u64(&m.Peak)
	w.u64(&m.Full)
	w.f32(&m.Rate)
	w.f32s(&m.Retained)
	m.Kept.fields(w)
}
