package answers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/bench"
)

// server answers every prompt with a text; ids are put into the answer when
// they are asked for, strict refuses fields that it does not know, and letters
// is a tokenizer of one token a letter.
type server struct {
	texts                []string
	ids, strict, letters bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/tokenize" {
		text, ok := in["prompt"].(string)
		if !s.letters || !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"tokens":%s}`, codes(text))
		return
	}
	if _, asked := in["return_token_ids"]; asked && s.strict {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	text := s.texts[len(in["prompt"].([]any))-1]
	b, _ := json.Marshal(text)
	ids := ""
	if s.ids && in["return_token_ids"] == true {
		ids = `,"token_ids":` + codes(text)
	}
	fmt.Fprintf(w, `{"choices":[{"text":%s,"finish_reason":"length"%s}]}`, b, ids)
}

func codes(text string) string {
	out := []int{}
	for _, r := range text {
		out = append(out, int(r)+1000)
	}
	b, _ := json.Marshal(out)
	return string(b)
}

func collect(t *testing.T, s *server) (Set, error) {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	path := filepath.Join(t.TempDir(), "p.jsonl")
	text := `{"id":0,"tokens":[1],"output_len":4,"answer":"Paris"}` + "\n" + `{"id":1,"tokens":[1,2],"output_len":4}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Collect(t.Context(), bench.ThisHost(), bench.Spec{URL: web.URL, Path: "/v1/completions", API: bench.Completions, Model: "m", Prompts: path, Rules: bench.Rules{MinSuccess: 1}})
}

// TestAnswersAreKnownByTheBestUnit: ids of the answer, else of /tokenize, also
// of a server that refuses to be asked for ids, else characters.
func TestAnswersAreKnownByTheBestUnit(t *testing.T) {
	for _, tc := range []struct {
		ids, strict, letters bool
		unit                 string
		first                int
	}{
		{true, false, true, Own, 1097}, {false, false, true, Tokenized, 1097}, {true, true, true, Tokenized, 1097}, {false, false, false, Characters, 97},
	} {
		got, err := collect(t, &server{[]string{"ab", "cd"}, tc.ids, tc.strict, tc.letters})
		if err != nil || got.Unit != tc.unit || len(got.Answers) != 2 || got.Answers[0].Tokens[0] != tc.first || got.Answers[1].Text != "cd" {
			t.Errorf("%+v: %+v, error %v", tc, got, err)
		}
	}
}

// TestAgreementByTokens by hand: the second answer differs at its second token,
// so 2 + 1 of 4 tokens agree and one of two answers is equal.
func TestAgreementByTokens(t *testing.T) {
	base, err := collect(t, &server{texts: []string{"ab", "cd"}, ids: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(t, &server{texts: []string{"ab", "cx"}, ids: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := got.Agree(base)
	if err != nil || a.Equal != 1 || a.Prompts != 2 || a.Tokens != .75 || a.First == nil || *a.First != 1 {
		t.Errorf("%+v, error %v", a, err)
	}
	other, err := collect(t, &server{texts: []string{"ab", "cd"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Agree(base); err == nil || !strings.Contains(err.Error(), "characters") {
		t.Errorf("unlike units were compared: %v", err)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := got.Save(file); err != nil {
		t.Fatal(err)
	}
	if again, err := Read(file); err != nil || !slices.EqualFunc(again.Answers, got.Answers, func(a, b Answer) bool { return a.Text == b.Text && slices.Equal(a.Tokens, b.Tokens) }) {
		t.Errorf("%+v, error %v", again, err)
	}
}

// TestGrade: an expected answer counts as words of its own.
func TestGrade(t *testing.T) {
	for text, want := range map[string]bool{"It is Paris.": true, "**Paris**": true, "Parisian": false, "paris": false, "in New York, not Paris!": true} {
		got, err := collect(t, &server{texts: []string{text, "x"}})
		if err != nil {
			t.Fatal(err)
		}
		right, all, low, high := got.Grade()
		if all != 1 || (right == 1) != want || !(low < high) {
			t.Errorf("%q: %d of %d, %v to %v", text, right, all, low, high)
		}
	}
	if Right("the answer is 12", "1") || !Right("the answer is 1", "1") {
		t.Error("digits of another number")
	}
}

func TestServerThatFailsIsAnError(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	path := filepath.Join(t.TempDir(), "p.jsonl")
	if err := os.WriteFile(path, []byte(`{"id":0,"tokens":[1],"output_len":4}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Collect(t.Context(), bench.ThisHost(), bench.Spec{URL: web.URL, Path: "/v1/completions", API: bench.Completions, Model: "m", Prompts: path, Rules: bench.Rules{MinSuccess: 1}})
	if err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("error %v", err)
	}
}
