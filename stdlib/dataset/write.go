package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Write returns the file of these prompts, numbered in their order, warm-up
// ones first. What Read would refuse is an error here.
func Write(prompts []Prompt) ([]byte, error) {
	sorted := slices.Clone(prompts)
	slices.SortStableFunc(sorted, func(a, b Prompt) int {
		switch {
		case a.Warmup == b.Warmup:
			return 0
		case a.Warmup:
			return -1
		}
		return 1
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i := range sorted {
		sorted[i].ID = i
		if err := follows(sorted[i], sorted[:i]); err != nil {
			return nil, fmt.Errorf("writing dataset: prompt %d: %w", i, err)
		}
		if err := enc.Encode(sorted[i]); err != nil {
			return nil, fmt.Errorf("writing dataset: prompt %d: %w", i, err)
		}
	}
	return out.Bytes(), nil
}

// Digest names a set's file: sha256 in hexadecimal.
func Digest(file []byte) string {
	sum := sha256.Sum256(file)
	return "sha256:" + hex.EncodeToString(sum[:])
}
