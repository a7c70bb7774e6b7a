package model

// BlockSize is the number of positions in a block of the key/value cache.
const BlockSize = 16

// KV is the memory of keys and values, in blocks that sequences own or share.
// Who may use which block is the caller's business.
type KV struct {
	heads, dim   int
	perHead      int // numbers in a block of one layer and head
	perBlock     int // numbers in a block of all layers and heads
	keys, values []float32
}

// NewKV makes room for a number of blocks of m's keys and values.
func NewKV(m *Model, blocks int) *KV {
	kv := &KV{heads: m.KVHeads, dim: m.headDim()}
	kv.perHead = BlockSize * kv.dim
	kv.perBlock = m.Layers * kv.heads * kv.perHead
	kv.keys = make([]float32, blocks*kv.perBlock)
	kv.values = make([]float32, blocks*kv.perBlock)
	return kv
}

// at returns where the block of one layer and head begins; there position i of
// the block has the numbers from i·dim.
func (kv *KV) at(block int32, layer, head int) int {
	return int(block)*kv.perBlock + (layer*kv.heads+head)*kv.perHead
}
