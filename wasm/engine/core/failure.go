package core

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/chat"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// failure maps an error to what the page can word. Args are fields by name, or numbers: for CodeTooLong tokens asked and
// room and the cap in bytes, for CodeQuota bytes needed and free, for CodeNetwork the address and the status.
func failure(op string, err error) proto.Failure {
	f := proto.Failure{Code: proto.CodeInternal, Op: op, Msg: err.Error()}
	var (
		own      proto.Failure
		full     *cache.FullError
		format   *weights.FormatError
		words    *tokenizer.FormatError
		manifest *weights.ManifestError
		param    *sample.ParamError
		fetch    *weights.FetchError
		hash     *weights.HashError
		quota    *weights.QuotaError
		tables   *policy.TablesError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &full):
		return tooLong(full.Asked, full.Room, full.Cap)
	case errors.As(err, &format):
		f.Code, f.Args = proto.CodeFormat, []string{format.Field}
	case errors.As(err, &words):
		f.Code, f.Args = proto.CodeFormat, []string{words.Field}
	case errors.Is(err, chat.ErrTemplate):
		f.Code, f.Args = proto.CodeFormat, []string{"tokenizer.chat_template"}
	case errors.As(err, &manifest):
		f.Code, f.Args = proto.CodeManifest, []string{manifest.Field}
	case errors.As(err, &fetch):
		f.Code, f.Args = proto.CodeNetwork, []string{fetch.URL, strconv.Itoa(fetch.Status)}
	case errors.As(err, &hash):
		f.Code, f.Args = proto.CodeHash, []string{hash.Part}
	case errors.As(err, &quota):
		f.Code, f.Args = proto.CodeQuota, []string{decimal(quota.Need), decimal(quota.Free)}
	case errors.As(err, &param):
		f.Code, f.Args = proto.CodeBadRequest, []string{param.Field}
	case lost(err):
		f.Code = proto.CodeLost
	case errors.Is(err, step.ErrMemory):
		f.Code = proto.CodeMemory
	case errors.Is(err, llama.ErrSmall):
		f.Code = proto.CodeSmall
	case errors.As(err, &tables):
		f.Code, f.Args = proto.CodeTables, []string{tables.Table}
	case errors.Is(err, sample.ErrLogits):
		f.Code = proto.CodeNumbers
	case errors.Is(err, llama.ErrEmpty):
		f.Code = proto.CodeEmpty
	case errors.Is(err, llama.ErrUndo):
		f.Code, f.Args = proto.CodeBadRequest, []string{"tokens"}
	case errors.Is(err, llama.ErrNoRecord):
		f.Code, f.Args = proto.CodeNoRecord, []string{"explain"}
	case errors.Is(err, llama.ErrPins):
		f.Code, f.Args = proto.CodeBadRequest, []string{"positions"}
	case errors.Is(err, llama.ErrNoShadow):
		f.Code, f.Args = proto.CodeBadRequest, []string{"position"}
	case errors.Is(err, llama.ErrMargin):
		f.Code, f.Args = proto.CodeBadRequest, []string{"gold"}
	case errors.Is(err, llama.ErrNoViews):
		f.Code, f.Args = proto.CodeBadRequest, []string{"rows"}
	}
	return f
}

// tooLong says that a prompt does not fit: tokens asked for, tokens there is room for, the cap in bytes.
func tooLong(asked, room int, capBytes int64) proto.Failure {
	return proto.Failure{
		Code: proto.CodeTooLong, Op: "prompt", Msg: fmt.Sprintf("%d tokens, room for %d", asked, room),
		Args: []string{strconv.Itoa(asked), strconv.Itoa(room), decimal(capBytes)},
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// op names a request in failures.
func op(m proto.Request) string { return reflect.TypeOf(m).Name() }
