package strictjson_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/workflowd/workflowd/internal/strictjson"
)

func TestRepairReplacesHalfPairs_Bug32(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\ud83d"}`:         `{"a":"\ufffd"}`,
		`{"a":"\uDE00x"}`:        `{"a":"\ufffdx"}`,
		`{"a":"\ud83d\ud83d"}`:   `{"a":"\ufffd\ufffd"}`,
		`{"a":"\ud83e\uddED"}`:   `{"a":"\ud83e\uddED"}`,
		`{"a":"\\ud83d"}`:        `{"a":"\\ud83d"}`,
		`{"a":"\\\ud83d\n"}`:     `{"a":"\\\ufffd\n"}`,
		"{\"a\":\"\xff\"}":       "{\"a\":\"\uFFFD\"}",
		`{"a":"\ud83d\u0041"}`:   `{"a":"\ufffd\u0041"}`,
		`{"a":"\uFFFD"}`:         `{"a":"\uFFFD"}`,
		`{"clean":"\u0041\n\t"}`: `{"clean":"\u0041\n\t"}`,
	} {
		given := []byte(in)
		if got := strictjson.Repair(given); string(got) != want || !json.Valid(got) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if string(given) != in {
			t.Errorf("%s: the argument was changed to %s", in, given)
		}
	}
}

// A strict reader takes what Repair returns, and a forgiving one reads the same from both.
func FuzzRepair(f *testing.F) {
	f.Add(`{"a":"\ud83d\\ud83d\ud83e\uDDED"}`)
	f.Add("\"\xff\xfb\"")
	f.Fuzz(func(t *testing.T, in string) {
		if !json.Valid([]byte(in)) {
			return
		}
		got := strictjson.Repair([]byte(in))
		var before, after any
		if json.Unmarshal([]byte(in), &before) != nil {
			return // a number beyond a float64
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, after) || string(strictjson.Repair(got)) != string(got) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
