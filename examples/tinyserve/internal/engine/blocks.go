package engine

import (
	"container/list"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
)

// blocks hands out the blocks of the key/value cache. With prefix caching a
// full block keeps its content after its owners have gone, until it is needed
// for something else, oldest first.
type blocks struct {
	prefix bool
	all    []block
	free   *list.List // of block numbers, the next to hand out in front
	index  map[content]int32
	serial uint64 // the last one given
}

// content identifies what a full block holds: its tokens and everything before
// them, by the serial of the block before (0 at a sequence's start). Serials
// are never used twice, so equal content means equal keys and values, without
// trust in a hash.
type content struct {
	before uint64
	tokens [model.BlockSize]int32
}

type block struct {
	owners  int
	element *list.Element // in free, nil while owned
	content content       // valid if serial is not 0
	serial  uint64
}

func newBlocks(n int, prefix bool) *blocks {
	b := &blocks{prefix: prefix, all: make([]block, n), free: list.New(), index: map[content]int32{}}
	for i := range b.all {
		b.all[i].element = b.free.PushBack(int32(i))
	}
	return b
}

// acquire returns the blocks for a sequence of at most positions positions,
// and how many of the prompt's first tokens they hold already: whole blocks,
// and never the last token, since its logits are needed.
func (b *blocks) acquire(prompt []int32, positions int) (table []int32, cached int) {
	before := uint64(0)
	for b.prefix && cached+model.BlockSize < len(prompt) {
		id, ok := b.index[content{before, [model.BlockSize]int32(prompt[cached:])}]
		if !ok {
			break
		}
		table = append(table, id)
		b.own(id)
		before = b.all[id].serial
		cached += model.BlockSize
	}
	for len(table)*model.BlockSize < positions {
		front := b.free.Front()
		if front == nil {
			panic("engine: more sequences than the key/value cache was made for")
		}
		id := front.Value.(int32)
		if b.all[id].serial != 0 {
			delete(b.index, b.all[id].content)
			b.all[id].serial = 0
		}
		b.own(id)
		table = append(table, id)
	}
	return table, cached
}

func (b *blocks) own(id int32) {
	own := &b.all[id]
	own.owners++
	if own.element != nil {
		b.free.Remove(own.element)
		own.element = nil
	}
}

// filled offers a block that has become full for sharing. before is the serial
// of the block before it; the result is its own. Where another block holds the
// same already, that one stays the shared one.
func (b *blocks) filled(id int32, before uint64, tokens []int32) uint64 {
	if !b.prefix {
		return 0
	}
	c := content{before, [model.BlockSize]int32(tokens)}
	if same, ok := b.index[c]; ok {
		return b.all[same].serial
	}
	b.serial++
	b.all[id].content, b.all[id].serial = c, b.serial
	b.index[c] = id
	return b.serial
}

// release gives a sequence's blocks back. Blocks without shared content are
// used again first, then those longest unused; of one sequence the last first,
// since a block is of no use without those before it.
func (b *blocks) release(table []int32) {
	for i := len(table) - 1; i >= 0; i-- {
		own := &b.all[table[i]]
		if own.owners--; own.owners > 0 {
			continue
		}
		if own.serial == 0 {
			own.element = b.free.PushFront(table[i])
		} else {
			own.element = b.free.PushBack(table[i])
		}
	}
}

// inUse returns how many blocks have owners.
func (b *blocks) inUse() int { return len(b.all) - b.free.Len() }
