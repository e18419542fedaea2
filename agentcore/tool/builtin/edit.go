package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	xunicode "golang.org/x/text/encoding/unicode"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed edit.md
var editDoc string

type editIn struct {
	Path  string       `json:"path" jsonschema:"minLength=1,description=File to change; relative to the working directory or absolute"`
	Edits []editInItem `json:"edits" jsonschema:"minItems=1,description=The changes of this file"`
}

type editInItem struct {
	OldText    string `json:"oldText" jsonschema:"minLength=1,description=Text that is in the file now"`
	NewText    string `json:"newText" jsonschema:"description=What takes its place; empty removes it"`
	ReplaceAll bool   `json:"replaceAll,omitempty" jsonschema:"description=Change every place where oldText occurs"`
}

// editDetails is what people see of an edit.
type editDetails struct {
	Path    string `json:"path"`
	Places  int    `json:"places"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Diff    string `json:"diff,omitempty"`
}

func newEdit(p place) tool.Tool { return tool.New(permission.Edit, editDoc, p.edit) }

func (p place) edit(ctx context.Context, _ tool.Call, in editIn) (tool.Result, error) {
	real, err := p.files.Canonical(ctx, in.Path)
	if err != nil {
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	unlock, err := env.Lock(ctx, p.env, real) // by the canonical name: two names of a file share it
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	old, err := p.editable(ctx, in.Path, real)
	if err != nil {
		return tool.Result{}, err
	}
	list := make([]replacement, len(in.Edits))
	for i, e := range in.Edits {
		list[i] = replacement{e.OldText, e.NewText, e.ReplaceAll}
	}
	enc := encodingOf(old)
	text, err := enc.decode(old)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w; change it with bash", showName(in.Path), err)
	}
	done, err := replace(text, list)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s was not changed: %w", showName(in.Path), err)
	}
	data, err := enc.encode(done.content)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s was not changed: %w", showName(in.Path), err)
	}
	if _, err := p.files.Write(ctx, real, data, env.WriteOptions{}); err != nil {
		if e, ok := errors.AsType[*env.Error](err); ok {
			e.Path = in.Path
		}
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	return edited(in.Path, string(text), done)
}

// edited is the result of an edit that was made.
func edited(path, before string, done replaced) (tool.Result, error) {
	d := editDetails{Path: path, Places: done.places}
	if len(before) <= diffInputBytes && len(done.content) <= diffInputBytes {
		d.Diff, d.Added, d.Removed = diff(before, string(done.content))
	}
	places := "1 place"
	if done.places != 1 {
		places = fmt.Sprintf("%d places", done.places)
	}
	said := fmt.Sprintf("edited %s: %s changed, %s now", showName(path), places, size(int64(len(done.content))))
	if len(done.loose) > 0 {
		said += fmt.Sprintf("\nEdit %s matched only with other quotes, dashes or spaces than the file has; read the place again.", strings.Trim(strings.ReplaceAll(fmt.Sprint(done.loose), " ", ", "), "[]"))
	}
	res := tool.Text(said)
	var err error
	res.Details, err = json.Marshal(d)
	return res, err
}

// editable reads a text file that is not too large.
func (p place) editable(ctx context.Context, path, real string) ([]byte, error) {
	f, err := p.files.Open(ctx, real)
	if err != nil {
		if e, ok := errors.AsType[*env.Error](err); ok {
			e.Path = path
		}
		return nil, p.advice(ctx, path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxEditBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(b) > MaxEditBytes {
		return nil, fmt.Errorf("%s is larger than %s: change it with bash", showName(path), size(MaxEditBytes))
	}
	return b, nil
}

// errBinary reports a file that is no text.
var errBinary = errors.New("the file is binary")

// fileEncoding is how a file holds text: a byte order mark, kept as it is, and UTF-16 or bytes.
type fileEncoding struct {
	mark []byte
	utf  encoding.Encoding // nil = bytes, as they are
}

func encodingOf(b []byte) fileEncoding {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return fileEncoding{b[:2], xunicode.UTF16(xunicode.LittleEndian, xunicode.IgnoreBOM)}
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return fileEncoding{b[:2], xunicode.UTF16(xunicode.BigEndian, xunicode.IgnoreBOM)}
	case bytes.HasPrefix(b, []byte{0xef, 0xbb, 0xbf}):
		return fileEncoding{mark: b[:3]}
	}
	return fileEncoding{}
}

// decode returns the text of a file without its mark. What could not be written back as it is, is refused.
func (e fileEncoding) decode(b []byte) ([]byte, error) {
	text := b[len(e.mark):]
	if e.utf != nil {
		var err error
		if text, err = e.utf.NewDecoder().Bytes(text); err != nil {
			return nil, err
		}
		if back, err := e.encode(text); err != nil || !bytes.Equal(back, b) {
			return nil, fmt.Errorf("the file is no clean UTF-16")
		}
	}
	if bytes.IndexByte(text[:min(len(text), sniffBytes)], 0) >= 0 {
		return nil, errBinary
	}
	return text, nil
}

func (e fileEncoding) encode(text []byte) ([]byte, error) {
	if e.utf != nil {
		var err error
		if text, err = e.utf.NewEncoder().Bytes(text); err != nil {
			return nil, err
		}
	}
	return append(bytes.Clone(e.mark), text...), nil
}
