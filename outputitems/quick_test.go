package outputitems

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The short way takes only what the general door takes, and reads the same in it.
func FuzzDecodeAppend(f *testing.F) {
	for _, s := range []string{
		`{"itemId":"a","op":"append","offset":0,"text":"x"}`, `{"itemId":"\u0061\\","op":"append","offset":12,"text":"a\n\"é\ud83d\ude00"}`,
		`{"itemId":"a","op":"append","offset":01,"text":"x"}`, `{"itemId":"a","op":"append","offset":-0,"text":"x"}`,
		`{"itemId":"a","op":"append","offset":1,"text":"\ud83d"}`, `{"itemId":"","op":"append","offset":1,"text":""}`,
		"{\"itemId\":\"a\",\"op\":\"append\",\"offset\":1,\"text\":\"\xff\"}", `{"itemId":"a","op":"append","offset":1_0,"text":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		quick, ok := decodeAppend(data)
		if !ok {
			return
		}
		general, err := decodeAny(data)
		if err != nil {
			t.Fatalf("%q passed the short way only: %v", data, err)
		}
		if d := cmp.Diff(general, quick); d != "" {
			t.Fatalf("%q (-general +short):\n%s", data, d)
		}
	})
}

func TestEveryEncodedAppendGoesTheShortWay(t *testing.T) {
	for _, text := range []string{"", "x", "a\nb\t\"\\\x01", "世界\U0001F600\u2028<&>"} {
		want := AppendText("itm_1", 120, text)
		encoded, err := EncodeChunk(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := decodeAppend(encoded); !ok || got != want {
			t.Errorf("%s: %v, %+v", encoded, ok, got)
		}
	}
}
