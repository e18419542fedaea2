package strictjson_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/internal/strictjson"
)

var validExamples = []string{
	``, ` `, `null`, `nul`, `nullx`, ` true `, `tru`, `falsey`, `0`, `-`, `-0`, `01`, `-01`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1E-07`, `1e5.`, `+1`, `1 2`,
	`""`, `"a`, `"a\"`, `"\u12"`, `"\u12aF"`, `"\u12ag"`, `"\x"`, "\"a\nb\"", "\"a\tb\"", `"\\"`, `"eight bytes and a quote: \" and more text"`,
	"\"\x80 no text\"", "\"\x00\"", "\"0123456\x1f\"", `"01234567"`, `"0123456\n8"`, `"0123456é"`,
	`[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,[2,{"a":[]}]]`, `[`, `]`, `[1`, `{}`, `{ }`, `{"a":1}`, `{"a" : 1 , "b":[]}`, `{"a"}`, `{"a":}`, `{"a":1,}`,
	`{a:1}`, `{"a":1 "b":2}`, `{"a":1}}`, `{"a":1`, "\ufeff1", "\v1", `{"a":1}` + "\r\n\t ", `'a'`, `NaN`, `Infinity`, `0x10`, `1_000`, `"a" "b"`, `//c`,
}

func TestValidSaysWhatEncodingJSONSays(t *testing.T) {
	for _, s := range validExamples {
		if got, want := strictjson.Valid([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	}
	for _, depth := range []int{9999, 10000, 10001, 200000} {
		for _, pair := range []string{"[]", "{}"} {
			open, inner := pair[:1], ""
			if pair == "{}" {
				open, inner = `{"a":`, "1"
			}
			s := strings.Repeat(open, depth) + inner + strings.Repeat(pair[1:], depth)
			if got, want := strictjson.Valid([]byte(s)), json.Valid([]byte(s)); got != want {
				t.Errorf("%d levels of %s: %t, want %t", depth, pair, got, want)
			}
		}
	}
}

func TestValidSaysWhatEncodingJSONSaysOfDamagedText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	whole := []byte(`{"role":"assistant","blocks":[{"type":"text","text":"Line one\nline \"two\" \u00e9 é"},{"n":-12.5e+3,"ok":true,"none":null,"list":[1,2,[]]}],"x":{}}`)
	const odd = "\"\\{}[]:,0123456789eE+-.u \n\x00\x1f\x7f\x80\xfftruefalsn"
	for range 200000 {
		s := bytes.Clone(whole)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(s))
			switch rng.IntN(3) {
			case 0:
				s[at] = odd[rng.IntN(len(odd))]
			case 1:
				s = append(s[:at], s[at+1:]...)
			case 2:
				s = append(s[:at], append([]byte{odd[rng.IntN(len(odd))]}, s[at:]...)...)
			}
		}
		if got, want := strictjson.Valid(s), json.Valid(s); got != want {
			t.Fatalf("%q: %t, want %t", s, got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range validExamples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		if got, want := strictjson.Valid(s), json.Valid(s); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text, _ := json.Marshal(map[string]string{"text": strings.Repeat("Tea is ready.\n", 70)})
	for _, v := range []struct {
		name string
		f    func([]byte) bool
	}{{"ours", strictjson.Valid}, {"encoding/json", json.Valid}} {
		b.Run(v.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				v.f(text)
			}
		})
	}
}
