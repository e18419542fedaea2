package builtin

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed read.md
var readDoc string

type readIn struct {
	Path   string `json:"path" jsonschema:"minLength=1,description=File to read; relative to the working directory or absolute"`
	Offset int    `json:"offset,omitempty" jsonschema:"minimum=0,description=First line to return\\, counted from 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"minimum=1,description=Number of lines to return"`
}

// readDetails is what people see of a read.
type readDetails struct {
	From  int `json:"from"` // first line shown, from 1
	To    int `json:"to"`
	Total int `json:"total,omitempty"` // lines of the file; 0 = not counted
}

func newRead(p place) tool.Tool {
	return tool.New(permission.Read, readDoc, p.read, tool.Replay(tool.Safe))
}

func (p place) read(ctx context.Context, _ tool.Call, in readIn) (res tool.Result, err error) {
	f, err := p.files.Open(ctx, in.Path)
	if err != nil {
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, binary, err := sniff(f, make([]byte, sniffBytes))
	if err != nil {
		return tool.Result{}, fmt.Errorf("read %q: %w", in.Path, err)
	}
	if binary {
		return tool.Result{}, binaryError(in.Path, f)
	}
	pg := pager{first: max(in.Offset, 1), limit: in.Limit}
	if err := pg.run(ctx, r); err != nil {
		return tool.Result{}, fmt.Errorf("read %q: %w", in.Path, err)
	}
	return pg.result(in.Path)
}

func binaryError(path string, f env.File) error {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %q: %w", path, err)
	}
	return fmt.Errorf("%q is a binary file (%s, %s); look at it with bash, for example with file, strings or xxd", path, http.DetectContentType(head[:n]), size(f.Info().Size))
}

// pager cuts one page out of a text of any length in bounded memory.
type pager struct {
	first, limit int // first line wanted, from 1; limit 0 = as many as fit

	page    head
	number  int    // lines ended so far
	line    []byte // the current one, as far as it may be shown
	length  int    // its whole length
	full    bool   // the page takes no more lines
	cut     int    // length of a line that alone is longer than a page; 0 = none
	last    int    // last line in the page
	counted bool   // number is the whole file's
	hidden  int    // control characters left out
}

func (p *pager) run(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, blockBytes)
	behind := 0
	for {
		part, err := br.ReadSlice('\n')
		ended := err == nil
		if err == bufio.ErrBufferFull {
			err = nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		if p.full {
			behind += len(part)
		}
		p.length += len(part)
		if !p.full && p.number+1 >= p.first {
			if room := MaxOutputBytes + 2 - len(p.line); room > 0 { // 2: more than fits, CR included
				p.line = append(p.line, part[:min(room, len(part))]...)
			}
		}
		if ended || err == io.EOF && p.length > 0 {
			p.endLine()
		}
		if err == io.EOF {
			p.counted = true
			return nil
		}
		if behind > countBytes {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (p *pager) endLine() {
	p.number++
	if !p.full && p.number >= p.first {
		var c cleaner
		text := strings.TrimSuffix(string(c.add(nil, p.line)), "\n")
		text = strings.ReplaceAll(text, "\r", " ")
		switch {
		case p.page.add(text):
			p.last = p.number
			p.hidden += c.dropped
			p.full = p.page.lines == p.limit || p.page.lines == MaxOutputLines
		case p.page.lines == 0:
			p.page.add(cutBytes(text, MaxOutputBytes-1))
			p.last, p.cut, p.full = p.number, p.length, true
		default:
			p.full = true
		}
	}
	p.line, p.length = p.line[:0], 0
}

func (p *pager) result(path string) (tool.Result, error) {
	if p.number == 0 {
		return tool.Text("(the file is empty)"), nil
	}
	if p.page.lines == 0 {
		return tool.Result{}, fmt.Errorf("%q has %d lines; offset %d is behind its end", path, p.number, p.first)
	}
	d := readDetails{From: p.first, To: p.last}
	of := ""
	if p.counted {
		d.Total = p.number
		of = fmt.Sprintf(" of %d", p.number)
	}
	text := p.page.b.String()
	var notes []string
	if p.cut > 0 {
		notes = append(notes, fmt.Sprintf("line %d has %s, only its beginning is shown: get other parts with bash, for example sed -n %dp FILE | cut -c START-END", p.last, size(int64(p.cut)), p.last))
	}
	if !p.counted || p.last < p.number {
		notes = append(notes, fmt.Sprintf("lines %d to %d%s; continue with offset %d", p.first, p.last, of, p.last+1))
	}
	if p.hidden > 0 {
		notes = append(notes, fmt.Sprintf("%d control characters are not shown", p.hidden))
	}
	if len(notes) > 0 {
		text += "[" + strings.Join(notes, "; ") + "]"
	}
	res := tool.Text(text)
	var err error
	res.Details, err = json.Marshal(d)
	return res, err
}
